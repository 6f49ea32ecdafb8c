package mcprelay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// A run is one process of the server.
type run struct {
	executor   *client.Client
	process    *client.Process
	generation int // servers before this one
	ending     sync.Once
	lines      int // lines that it has printed; for receiveFrom only

	// handshake is the client's initialize that the pump repeats; nil: the client sends its own.
	handshake *handshake
	answer    chan message // to the handshake; of capacity 1

	gone chan struct{} // closed when lost is set
	lost error         // why it was given up; guarded by Pump.mu

	answered bool // all requests in flight were answered with an error; guarded by Pump.mu
}

func newRun(executor *client.Client, process *client.Process, generation int) *run {
	return &run{executor: executor, process: process, generation: generation,
		answer: make(chan message, 1), gone: make(chan struct{})}
}

// noRunYet stands for a server that could not be started yet, for this reason.
func noRunYet(why error) *run {
	r := newRun(nil, nil, -1)
	r.lost, r.answered = why, true
	close(r.gone)
	return r
}

// receiveFrom passes on the output of the server until it ends, and handles its end.
func (p *Pump) receiveFrom(r *run) {
	err := p.read(r)
	switch {
	case p.ctx.Err() != nil: // Close does the rest
	case errors.Is(err, client.ErrSessionLost):
		p.giveUp(r, err)
	case p.isLost(r): // the end is a consequence of that
	default:
		if !errors.Is(err, io.EOF) {
			p.log.Warn("MCP transport closed", "process", r.process.ID(), "err", err)
			p.terminate(r)
		}
		p.end(err)
	}
}

// read passes on the output of the server. It returns io.EOF when the output has ended.
func (p *Pump) read(r *run) error {
	events := r.process.Subscribe()
	defer events.Close()
	stdout := splitter{source: "remote MCP server stdout", limit: maxStdoutLine}
	stderr := splitter{source: "remote MCP server stderr", limit: maxStderrLine}
	message := func(line []byte) error { return p.stdoutLine(r, line) }
	for {
		e, err := events.Next(p.ctx)
		switch {
		case err != nil:
			return err
		case e.Kind == client.Gap:
			return &LostEventsError{Expected: e.First, Received: e.Seq + 1}
		case e.Kind == client.Exited:
			p.mu.Lock()
			p.exit = client.Exit{Code: e.ExitCode, SandboxDenied: e.SandboxDenied, Denial: e.Denial, Usage: e.Usage}
			p.mu.Unlock()
		case e.Kind == client.Closed:
			if err := errors.Join(stderr.end(p.stderrLine), stdout.end(message)); err != nil {
				return err
			}
			return io.EOF
		case e.Stream == wire.StreamStderr:
			err = stderr.feed(e.Data, p.stderrLine)
		default:
			err = stdout.feed(e.Data, message)
		}
		if err != nil {
			return err
		}
	}
}

// A LostEventsError means that output of the server is missing. It is a client.ErrGap.
type LostEventsError struct{ Expected, Received uint64 }

func (e *LostEventsError) Error() string {
	return fmt.Sprintf("remote MCP server output stream lost process events: expected sequence %d, received %d", e.Expected, e.Received)
}

// Is makes it a client.ErrGap.
func (e *LostEventsError) Is(target error) bool { return target == client.ErrGap }

// stderrLine passes on a line of the server's standard error.
func (p *Pump) stderrLine(line []byte) error {
	if p.server.Stderr != nil {
		p.server.Stderr(line)
		return nil
	}
	p.log.Info("MCP server stderr", "line", string(line))
	return nil
}

// stdoutLine passes on a line of the server's standard output.
func (p *Pump) stdoutLine(r *run, line []byte) error {
	r.lines++
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	messages, ok := parse(line)
	if tell := p.server.NotMessage; tell != nil && (!ok || slices.ContainsFunc(messages, func(m message) bool { return !m.valid })) {
		tell(r.lines, line)
	}
	if !ok {
		p.log.Debug("skipped a line of the MCP server that is not JSON", "bytes", len(line))
		return nil
	}
	if g := r.handshake; g != nil && len(messages) == 1 && messages[0].isAnswer() && messages[0].id == g.id {
		r.answer <- messages[0] // does not block: it is sent once
		r.handshake = nil
		return nil
	}
	if !p.deliver(toClient(line, messages, r.generation)) {
		return context.Cause(p.ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range messages {
		p.clientState.received(&messages[i]) // after deliver, so that InFlight is 0 only when all answers were received
	}
	return nil
}

// isLost reports whether a run was given up.
func (p *Pump) isLost(r *run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.lost != nil
}

// giveUp ends a run; the next request starts another one. Requests in flight are answered with
// the reason.
func (p *Pump) giveUp(r *run, err error) {
	p.mu.Lock()
	if r.lost != nil {
		p.mu.Unlock()
		return
	}
	r.lost = err
	close(r.gone)
	open := p.clientState.take()
	p.mu.Unlock()
	p.log.Warn("MCP server lost", "process", r.process.ID(), "requests", len(open), "err", err)
	for id := range open {
		if !p.deliver(failure(id, fmt.Sprintf("Transport closed: %v; the next call starts the MCP server again", err))) {
			return
		}
	}
	p.mu.Lock()
	r.answered = true
	finish := p.finish
	p.mu.Unlock()
	if finish {
		p.end(err)
	}
}

// sendLines sends lines to the server, one after the other.
func (p *Pump) sendLines() {
	for {
		select {
		case s := <-p.sends:
			if s.end {
				s.done <- p.closeInput()
				continue
			}
			refused, err := p.send(s.line)
			s.done <- err // first: the caller of Send need not receive at the same time
			for i := range refused {
				p.deliver(refused[i])
			}
		case <-p.ended:
			return
		case <-p.ctx.Done():
			return
		}
	}
}

// send sends a line to the server, and starts a new server first if the last one is lost. If
// there is no server, it returns error answers to the requests in the line.
func (p *Pump) send(line []byte) (refused [][]byte, err error) {
	messages, _ := parse(line) // the server judges a line that is not JSON
	wanted := slices.ContainsFunc(messages, func(m message) bool { return m.isRequest() })
	for {
		if !wanted && p.dropIfLost(messages) {
			return nil, nil
		}
		r, err := p.current(messages)
		if err != nil {
			return p.refuse(messages, err)
		}
		toSend := toServer(line, messages, r.generation)
		if toSend == nil {
			p.log.Debug("dropped an answer to an MCP server that is gone")
			return nil, nil
		}
		switch noted, err := p.note(r, messages); {
		case err != nil:
			return p.refuse(messages, err)
		case !noted:
			continue // the run was lost meanwhile
		}
		return nil, p.write(r, toSend)
	}
}

// dropIfLost drops messages that are not requests if the server is lost: they are no reason to start
// another one. It returns false if the server is not lost.
func (p *Pump) dropIfLost(messages []message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run.lost == nil {
		return false
	}
	for i := range messages {
		p.clientState.sent(&messages[i])
	}
	p.log.Debug("dropped a message for an MCP server that is lost")
	return true
}

// note records the messages before they are sent. It returns false if the run is lost.
func (p *Pump) note(r *run, messages []message) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.lost != nil {
		return false, nil
	}
	if !p.clientState.hasRoom(messages) {
		return false, fmt.Errorf("limit reached: %d requests wait for an answer", maxInFlight)
	}
	for i := range messages {
		p.clientState.sent(&messages[i])
	}
	return true, nil
}

// write sends a line to this server. If the session is lost meanwhile, that is not an error:
// giveUp answers the requests.
func (p *Pump) write(r *run, line []byte) error {
	err := r.process.Write(p.ctx, append(bytes.Clone(line), '\n'))
	switch {
	case err == nil, errors.Is(err, client.ErrSessionLost):
		return nil
	case p.ctx.Err() != nil:
		return ErrClosed
	case errors.Is(err, client.ErrUnknownProcess):
		return fmt.Errorf("broken pipe: %w", err)
	case errors.Is(err, client.ErrStdinClosed):
		return fmt.Errorf("broken pipe: stdin closed (%w)", err)
	}
	return fmt.Errorf("write to the MCP server: %w", err)
}

// refuse returns error answers to requests that reach no server. Other messages need no answer.
func (p *Pump) refuse(messages []message, err error) (refused [][]byte, _ error) {
	if p.ctx.Err() != nil {
		return nil, ErrClosed
	}
	select {
	case <-p.ended:
		return nil, p.sendError()
	default:
	}
	p.log.Warn("no MCP server to send to", "err", err)
	for i := range messages {
		if m := &messages[i]; m.isRequest() {
			refused = append(refused, failure(m.id, "Transport closed: "+err.Error()))
		}
	}
	return refused, nil
}

// closeInput ends the input of the server. If the server is lost, it ends the pump.
func (p *Pump) closeInput() error {
	p.mu.Lock()
	p.finish = true
	r, lost, answered := p.run, p.run.lost, p.run.answered
	p.mu.Unlock()
	if lost != nil {
		if answered { // otherwise giveUp is still answering, and ends the pump afterwards
			p.end(lost)
		}
		return nil
	}
	err := r.process.CloseStdin(p.ctx)
	if errors.Is(err, client.ErrSessionLost) || errors.Is(err, client.ErrStdinClosed) || errors.Is(err, client.ErrUnknownProcess) {
		return nil
	}
	return err
}

// current returns the server to send to, and starts it if the last one is lost, or if
// there was none yet.
func (p *Pump) current(messages []message) (*run, error) {
	p.mu.Lock()
	r, lost := p.run, p.run.lost
	first, initialized := p.clientState.answered, p.clientState.initialized
	p.mu.Unlock()
	if lost == nil {
		return r, nil
	}
	if len(messages) > 0 && messages[0].method == methodInitialize {
		first = nil
	}
	ctx, cancel := context.WithTimeoutCause(p.ctx, restartTimeout, errors.New("the MCP server did not start again in time"))
	defer cancel()
	next, err := p.restart(ctx, r, first)
	if err != nil || first == nil {
		return next, err
	}
	if err := p.repeatHandshake(ctx, next, first, initialized); err != nil {
		err = fmt.Errorf("initialize the MCP server that was started again: %w", err)
		p.giveUp(next, err)
		p.terminate(next)
		return nil, err
	}
	return next, nil
}

// restart starts the server in a new session.
func (p *Pump) restart(ctx context.Context, last *run, first *handshake) (*run, error) {
	now := time.Now()
	for len(p.restarts) > 0 && now.Sub(p.restarts[0]) >= restartWindow {
		p.restarts = p.restarts[1:]
	}
	if len(p.restarts) >= maxRestarts {
		return nil, fmt.Errorf("the MCP server was started again %d times in %s; try again later", maxRestarts, restartWindow)
	}
	executor, err := p.server.Client(ctx)
	if errors.Is(err, client.ErrClosed) || err == nil && executor == last.executor && executor.Status().State == client.Failed {
		p.end(last.lost) // there will be no other session
		return nil, last.lost
	}
	if err != nil {
		return nil, fmt.Errorf("session for the MCP server: %w", err)
	}
	p.restarts = append(p.restarts, now)
	process, err := p.server.start(ctx, executor)
	if err != nil {
		return nil, err
	}
	if last.process != nil {
		p.log.Info("MCP server started again", "process", process.ID())
	}
	next := newRun(executor, process, last.generation+1)
	next.handshake = first
	p.begin(next)
	return next, nil
}

// repeatHandshake repeats the client's initialize to a server that was started again.
func (p *Pump) repeatHandshake(ctx context.Context, r *run, first *handshake, initialized []byte) error {
	if err := p.write(r, first.line); err != nil {
		return err
	}
	select {
	case m := <-r.answer:
		if m.result == nil {
			return fmt.Errorf("it refused: %.200s", m.raw)
		}
		if v := chosenVersion(&m); v != first.version {
			return fmt.Errorf("it speaks version %q of the protocol, and the last one spoke %q", v, first.version)
		}
	case <-r.gone:
		return r.lost
	case <-p.ended:
		return p.sendError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if initialized == nil {
		return nil
	}
	return p.write(r, initialized)
}
