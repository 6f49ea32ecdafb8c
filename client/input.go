package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/tetherexec/tether/wire"
)

// Limits of input on its way.
const (
	// maxWrite is the most input in one request.
	maxWrite = 128 << 10

	// writeWindow is how many requests with input wait for their answers.
	writeWindow = 8
)

// An input brings bytes to the standard input of a process, each once and in order,
// over any number of connections. What is unanswered when a connection is lost is
// sent again on the next one, under the same numbers.
type input struct {
	process *Process
	once    sync.Once
	queue   chan *write
}

// A write is a piece of input, or its end.
type write struct {
	data []byte
	end  bool
	id   string
	done chan error // of capacity 1
}

// submit hands a write over; it waits for its turn.
func (in *input) submit(ctx context.Context, w *write) error {
	p := in.process
	in.once.Do(func() {
		in.queue = make(chan *write)
		p.client.spawn(in.run) // else nobody takes from the queue, and the client has ended
	})
	w.id = p.client.newID()
	w.done = make(chan error, 1)
	select {
	case in.queue <- w:
		return nil
	case <-p.done:
		return p.inputGone()
	case <-p.client.ctx.Done():
		return p.inputGone()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inputGone is why a process takes no input any more.
func (p *Process) inputGone() error {
	if err := p.Err(); err != nil {
		return err
	}
	if p.client.ctx.Err() != nil {
		return context.Cause(p.client.ctx)
	}
	return ErrStdinClosed
}

// run sends what is submitted until the process has ended and all is answered: a write
// that was on its way when the command exited may well have been the reason.
func (in *input) run() {
	c := in.process.client
	var open []*write // unanswered, oldest first
	for {
		l, err := c.ready(c.ctx)
		if err == nil {
			var done bool
			if open, done = in.runOn(l, open); !done {
				continue
			}
			err = in.process.inputGone()
		}
		for _, w := range open {
			w.done <- err
		}
		return
	}
}

// A flight is a write that was sent on a connection.
type flight struct {
	write  *write
	result chan error // of capacity 1
}

// runOn sends on one connection until that is lost, or nothing is left to do. It
// returns what is unanswered.
func (in *input) runOn(l *link, open []*write) (_ []*write, done bool) {
	p := in.process
	var flights []flight
	for _, w := range open {
		flights = append(flights, in.launch(l, w))
	}
	queue, ended := in.queue, p.done
	for queue != nil || len(flights) > 0 {
		take := queue
		if len(flights) >= writeWindow {
			take = nil
		}
		var first chan error
		if len(flights) > 0 {
			first = flights[0].result
		}
		select {
		case w := <-take:
			flights = append(flights, in.launch(l, w))
		case err := <-first:
			if _, lost := isLost(err); lost {
				first <- err
				return land(flights), p.Err() != nil
			}
			flights[0].write.done <- err
			flights = flights[1:]
		case <-ended:
			queue, ended = nil, nil // only answers now
		case <-p.client.ctx.Done():
			return land(flights), true
		}
	}
	return nil, true
}

// land waits for the outcome of all flights and returns the writes that have none.
func land(flights []flight) (open []*write) {
	for _, f := range flights {
		err := <-f.result
		if _, lost := isLost(err); lost {
			open = append(open, f.write)
			continue
		}
		f.write.done <- err
	}
	return open
}

// launch sends a write. Its outcome comes when it comes.
func (in *input) launch(l *link, w *write) flight {
	p := in.process
	f := flight{w, make(chan error, 1)}
	method, params := wire.MethodProcessWrite, any(&wire.WriteParams{ProcessID: p.id, Chunk: w.data, WriteID: w.id})
	if w.end {
		method, params = wire.MethodProcessCloseStdin, &wire.CloseStdinParams{ProcessID: p.id, OnceID: &w.id}
	}
	// It waits for its turn: were it refused, later input would overtake it.
	call, err := l.begin(p.client.ctx, patient, method, params)
	if err != nil {
		f.result <- err
		return f
	}
	p.client.tasks.Go(func() {
		var r struct {
			Status string `json:"status" wire:"default"`
		}
		err := call.outcome(&r)
		if err == nil && !w.end {
			err = writeError(r.Status)
		}
		f.result <- err
	})
	return f
}

func writeError(status string) error {
	switch status {
	case wire.WriteAccepted:
		return nil
	case wire.WriteStdinClosed:
		return ErrStdinClosed
	case wire.WriteUnknownProcess:
		return ErrUnknownProcess
	}
	return fmt.Errorf("input was not accepted: %s", status)
}

// Write sends input to the command and returns when the server has accepted it. The
// input arrives once and in order, whatever happens to the connection. If the context
// ends first, it may still arrive.
func (p *Process) Write(ctx context.Context, data []byte) error {
	var answers []chan error
	for {
		n := min(len(data), maxWrite)
		w := &write{data: bytes.Clone(data[:n])}
		if err := p.input.submit(ctx, w); err != nil {
			return err
		}
		answers = append(answers, w.done)
		if data = data[n:]; len(data) == 0 {
			break
		}
	}
	for _, answer := range answers {
		select {
		case err := <-answer:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// CloseStdin ends the command's standard input after what was written before. On a
// terminal it types the end-of-file character.
func (p *Process) CloseStdin(ctx context.Context) error {
	if !p.client.Has(FeatureCloseStdin) {
		return unsupported("closing standard input")
	}
	w := &write{end: true}
	if err := p.input.submit(ctx, w); err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stdin returns a writer for the command's standard input. It does not wait for each
// answer, so an error may be that of an earlier Write; Close waits for all of them
// and then ends the input.
func (p *Process) Stdin() io.WriteCloser { return &stdin{process: p} }

// A stdin is for one goroutine.
type stdin struct {
	process *Process
	open    []*write
	err     error
}

// Write implements io.Writer.
func (s *stdin) Write(data []byte) (n int, err error) {
	for s.err == nil && n < len(data) {
		piece := data[n:min(len(data), n+maxWrite)]
		w := &write{data: bytes.Clone(piece)}
		if err := s.process.input.submit(context.Background(), w); err != nil {
			s.err = err
			break
		}
		n += len(piece)
		s.open = append(s.open, w)
		s.reap(writeWindow)
	}
	return n, s.err
}

// reap takes the answers of all writes but the newest few.
func (s *stdin) reap(leave int) {
	for len(s.open) > leave {
		if err := <-s.open[0].done; err != nil && s.err == nil {
			s.err = err
		}
		s.open = s.open[1:]
	}
}

// Close implements io.Closer.
func (s *stdin) Close() error {
	s.reap(0)
	if s.err != nil {
		return s.err
	}
	s.err = ErrStdinClosed
	return s.process.CloseStdin(context.Background())
}
