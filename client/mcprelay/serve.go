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

// Times of Relay's end.
const (
	// lingerTime is how long a server may take to end after the end of its input, once
	// all requests are answered.
	lingerTime = 5 * time.Second

	// maxLingerTime is how long it may take to answer them.
	maxLingerTime = 10 * time.Minute

	// deafLingerTime is the same on executors where that end cannot be told.
	deafLingerTime = 100 * time.Millisecond
)

// ErrLeft means that the server was ended because its client has left.
var ErrLeft = errors.New("the MCP client has left")

// Relay is the server for a client that speaks in lines on in and out, until one of
// them ends. It returns io.EOF if the server did, and ErrLeft if the client did and the
// server had to be ended. The pump is to be closed then.
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
			return ErrLeft // nobody reads
		}
	}
}

// accept sends what the client says, and its end.
func (p *Pump) accept(ctx context.Context, in io.Reader) error {
	lines := splitter{source: "MCP client", limit: maxClientLine}
	send := func(line []byte) error {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		return p.Send(ctx, line)
	}
	for {
		piece := make([]byte, 64<<10) // lines may be kept
		n, err := in.Read(piece)
		if ferr := lines.feed(piece[:n], send); ferr != nil {
			return p.unlessOver(ferr)
		}
		if err == nil {
			continue
		}
		if err := lines.end(send); err != nil {
			return p.unlessOver(err)
		}
		return p.linger(ctx)
	}
}

// unlessOver leaves it to Receive to say how the server ended: it may have more to say.
func (p *Pump) unlessOver(err error) error {
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

// linger lets the server answer what it was asked, and end by itself.
func (p *Pump) linger(ctx context.Context) error {
	patience := lingerTime
	if err := p.CloseInput(ctx); errors.Is(err, client.ErrUnsupported) {
		patience = deafLingerTime
	} else if err != nil {
		return p.unlessOver(err)
	}
	tick, last := time.NewTicker(patience), time.After(maxLingerTime)
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
