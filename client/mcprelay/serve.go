package mcprelay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tetherexec/tether/client"
)

// Limits at the end of Relay.
const (
	// lingerTime is how long a server may take to end after the end of its input, once
	// all requests are answered.
	lingerTime = 5 * time.Second

	// maxLingerTime is how long it may take to answer them.
	maxLingerTime = 10 * time.Minute

	// lingerTimeWithoutEOF replaces lingerTime on executors that cannot end the input of a process.
	lingerTimeWithoutEOF = 100 * time.Millisecond
)

// ErrLeft means that Relay has ended the server because the client has closed its end.
var ErrLeft = errors.New("the MCP client has left")

// Relay passes lines between the server and a client on in and out, until one of them ends. It
// returns io.EOF if the server has ended, and ErrLeft if the client has ended and the server has
// to be ended by closing the pump.
//
// A read of in may outlast Relay: it ends with the next line, or with in.
func (p *Pump) Relay(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with in, or at the next line
		if err := p.accept(ctx, in); err != nil {
			cancel(err)
		}
	}()
	for {
		line, err := p.Receive(ctx)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(bytes.Clone(line), '\n')); err != nil {
			return ErrLeft // the client does not read any more
		}
	}
}

// accept sends the client's lines to the server, and then the end of its input.
func (p *Pump) accept(ctx context.Context, in io.Reader) error {
	lines := splitter{source: "MCP client", limit: maxClientLine}
	send := func(line []byte) error {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		return p.Send(ctx, line)
	}
	for {
		piece := make([]byte, 64<<10) // a new one, because lines share its memory
		n, err := in.Read(piece)
		if ferr := lines.feed(piece[:n], send); ferr != nil {
			return p.unlessEnded(ferr)
		}
		if err == nil {
			continue
		}
		if err := lines.end(send); err != nil {
			return p.unlessEnded(err)
		}
		return p.linger(ctx)
	}
}

// unlessEnded returns nil if the server has ended: then Receive returns the reason, after the
// server's last lines.
func (p *Pump) unlessEnded(err error) error {
	if errors.Is(err, client.ErrStdinClosed) || errors.Is(err, client.ErrUnknownProcess) {
		return nil
	}
	select {
	case <-p.ended:
		return nil
	default:
		return fmt.Errorf("MCP client: %w", err)
	}
}

// linger gives the server time to answer open requests, and to end by itself.
func (p *Pump) linger(ctx context.Context) error {
	wait := lingerTime
	if err := p.CloseInput(ctx); errors.Is(err, client.ErrUnsupported) {
		wait = lingerTimeWithoutEOF
	} else if err != nil {
		return p.unlessEnded(err)
	}
	tick, last := time.NewTicker(wait), time.After(maxLingerTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if p.InFlight() == 0 {
				return ErrLeft
			}
		case <-last:
			return ErrLeft
		case <-p.ended:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
