package mcprelay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
)

// Limits of restarts.
const (
	maxRestarts   = 3
	restartWindow = time.Minute

	// restartTimeout bounds a restart: a new session, the start of the server, and its answer
	// to the repeated initialize.
	restartTimeout = time.Minute
)

// closeTimeout bounds the request to end a server. If the executor cannot be reached, the
// server ends with its session.
const closeTimeout = 5 * time.Second

// ErrClosed means that the program has closed the transport.
var ErrClosed = errors.New("MCP transport is closed")

// A Pump passes messages between a client and an MCP server on an executor, one per line. It
// keeps track of requests, so that it can start the server again when the session is lost. It
// changes no bytes, except the ids of requests from a server that was started again. It is safe
// for concurrent use.
type Pump struct {
	server  Server
	log     *slog.Logger
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	tasks   sync.WaitGroup
	closing sync.Once

	sends chan *sending
	lines chan []byte   // for the client
	ended chan struct{} // closed when nothing follows

	restarts []time.Time // of the last minute; for the sender only

	mu          sync.Mutex
	run         *run // the newest
	clientState clientState
	finish      bool  // the client has closed its end
	err         error // why it ended; io.EOF: the server did
	exit        client.Exit
}

// A sending is a line on its way to the server, or the end of its input.
type sending struct {
	line []byte
	end  bool
	done chan error // of capacity 1
}

// Open starts the server, or leaves that to the first request, see [Server.Lazy]. The
// context bounds the start only; Close ends the server.
func (s *Server) Open(ctx context.Context) (*Pump, error) {
	p := &Pump{server: *s, log: s.Log, sends: make(chan *sending), lines: make(chan []byte), ended: make(chan struct{})}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	executor, err := s.Client(ctx)
	switch {
	case err != nil && (!s.Lazy || ctx.Err() != nil):
		return nil, fmt.Errorf("session for an MCP server: %w", err)
	case err != nil:
		p.log.Debug("no session for the MCP server yet; each request tries again", "err", err)
		p.run = noRunYet(err)
	}
	var process *client.Process
	if err == nil {
		if process, err = s.start(ctx, executor); err != nil {
			return nil, err
		}
	}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if process != nil {
		p.begin(newRun(executor, process, 0))
	}
	p.tasks.Go(p.sendLines) // ends with p.ctx or p.ended
	return p, nil
}

// begin makes a run the newest one.
func (p *Pump) begin(r *run) {
	p.mu.Lock()
	p.run = r
	p.mu.Unlock()
	p.tasks.Go(func() { p.receiveFrom(r) }) // ends with p.ctx or the process
}

// Send sends a line, without its line end, to the server. It returns when the executor has
// accepted it. If the session is lost, requests are answered with an error, and Send succeeds.
// Send fails if the server has ended or has closed its input. If the context ends first, the
// line may still arrive, as a whole.
func (p *Pump) Send(ctx context.Context, line []byte) error {
	return p.submit(ctx, &sending{line: line})
}

// CloseInput ends the server's standard input, after which most servers end. On executors that
// cannot do that, the error is [client.ErrUnsupported]. The server is not started again after
// this.
func (p *Pump) CloseInput(ctx context.Context) error { return p.submit(ctx, &sending{end: true}) }

func (p *Pump) submit(ctx context.Context, s *sending) error {
	s.done = make(chan error, 1)
	select {
	case p.sends <- s:
	case <-p.ended:
		return p.sendError()
	case <-p.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Receive returns the next line for the client, without its line end. When the server has ended
// and all its lines were received, the error is io.EOF; lost output is a [client.ErrGap]. All
// errors, except that of the context, are final.
func (p *Pump) Receive(ctx context.Context) ([]byte, error) {
	select {
	case line := <-p.lines:
		return line, nil
	case <-p.ended:
		return nil, p.reason()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// InFlight is how many requests of the client wait for an answer.
func (p *Pump) InFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.clientState.open)
}

// Exit returns how the server ended, after Receive has returned io.EOF.
func (p *Pump) Exit() client.Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Close ends the server, if it has not ended. Lines that were not received are dropped.
func (p *Pump) Close() error {
	p.closing.Do(func() {
		p.cancel(ErrClosed)
		p.tasks.Wait()
		p.mu.Lock()
		r := p.run
		p.mu.Unlock()
		if r.lost == nil {
			p.terminate(r)
		}
		p.end(ErrClosed)
	})
	return nil
}

// terminate ends a server that did not end by itself, once: Close and the end of a run may both
// call it.
func (p *Pump) terminate(r *run) {
	r.ending.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), closeTimeout)
		defer cancel()
		if _, err := r.process.Terminate(ctx); err != nil {
			p.log.Warn("the MCP server could not be ended; it ends with its session", "err", err)
		}
	})
}

// end ends the pump. The first reason counts.
func (p *Pump) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.ended)
	}
}

func (p *Pump) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// sendError is the error of Send after the end of the pump.
func (p *Pump) sendError() error {
	if err := p.reason(); !errors.Is(err, io.EOF) {
		return err
	}
	return errors.New("broken pipe: the MCP server has ended")
}

// deliver hands a line to Receive. It returns false if the pump was closed.
func (p *Pump) deliver(line []byte) bool {
	select {
	case p.lines <- line:
		return true
	case <-p.ctx.Done():
		return false
	}
}
