package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/tetherexec/tether/wire"
)

// Limits of input that is sent and not yet answered.
const (
	// maxWrite is the most input in one request, if the server keeps the order of
	// requests: then several are on their way.
	maxWrite = 128 << 10

	// maxOnlyWrite is the most input in one request to other servers. The reference with
	// --concurrent-requests executes requests in any order, so only one request is on its way
	// at a time, and it carries more.
	maxOnlyWrite = 1 << 20

	// inputWindow is how much input of a process may wait for its answers: 2 MiB at a
	// time carry 10 MiB/s over 200 ms.
	inputWindow = 2 << 20

	// maxWrites is how many requests with input may wait for their answers. Above that, small
	// pieces of input are collected into one request.
	maxWrites = 64
)

// An input brings bytes to the standard input of a process, each once and in order,
// over any number of connections. Requests that are unanswered when a connection is lost
// are sent again on the next one, under the same numbers.
type input struct {
	process *Process
	once    sync.Once
	queue   chan *write
	waiting []*write // taken from the queue and not sent yet; used by run only
}

// A write is a piece of input, or its end. It is one request: once it was sent, it does
// not change.
type write struct {
	data     []byte
	end      bool
	id       string
	receipts []share
}

// A share is how many of the writes of a receipt are in a request.
type share struct {
	receipt *receipt
	writes  int
}

// settle reports the outcome of a write to its callers.
func (w *write) settle(err error) {
	for _, s := range w.receipts {
		s.receipt.settle(s.writes, err)
	}
}

// A receipt has the outcome of all writes of a caller.
type receipt struct {
	mu      sync.Mutex
	open    int           // unanswered writes
	err     error         // the first error
	settled chan struct{} // closed with the next answer; nil: nothing waits for it
}

func (r *receipt) settle(writes int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open -= writes
	if r.err == nil {
		r.err = err
	}
	if r.settled != nil {
		close(r.settled)
		r.settled = nil
	}
}

// failed is the first error so far.
func (r *receipt) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// wait returns when all writes are answered, or with the first error.
func (r *receipt) wait(ctx context.Context) error {
	for {
		r.mu.Lock()
		open, err := r.open, r.err
		if r.settled == nil {
			r.settled = make(chan struct{})
		}
		settled := r.settled
		r.mu.Unlock()
		if err != nil || open == 0 {
			return err
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// submit queues a write. It waits while too much input is on its way.
func (in *input) submit(ctx context.Context, w *write, r *receipt) (err error) {
	p := in.process
	in.once.Do(func() {
		in.queue = make(chan *write)
		p.client.spawn(in.run) // if the client has failed, the select below returns its error
	})
	w.receipts = []share{{r, 1}}
	r.mu.Lock()
	r.open++
	r.mu.Unlock()
	select {
	case in.queue <- w:
		return nil
	case <-p.end.done:
		err = p.inputGone()
	case <-p.client.ctx.Done():
		err = p.inputGone()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	r.settle(1, err)
	return err
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

// run sends submitted writes until the process has ended and all of them are answered: the
// last write before the exit may be the one that made the command exit.
func (in *input) run() {
	c := in.process.client
	var open []*write // unanswered, oldest first
	err := c.Through(c.ctx, Idempotent, func(l *Link) (err error) {
		open, err = in.runOn(l, open)
		return err
	})
	for _, w := range append(open, in.waiting...) {
		w.settle(err)
	}
}

// A sentWrite is a write that was sent on a connection.
type sentWrite struct {
	write  *write
	result chan error // of capacity 1
}

// runOn sends on one connection until that is lost, or nothing is left to do. It returns
// the writes that are unanswered, and why it has ended.
func (in *input) runOn(l *Link, open []*write) ([]*write, error) {
	p := in.process
	var sent []sentWrite
	for _, w := range open {
		sent = append(sent, in.send(l, w))
	}
	queue, ended := in.queue, p.end.done
	for queue != nil || len(sent) > 0 {
		for len(in.waiting) > 0 && queue != nil && l.mayWrite(sent, in.waiting[0]) {
			sent = append(sent, in.send(l, in.waiting[0]))
			in.waiting = in.waiting[1:]
		}
		take := queue
		if in.full(l.maxWrite()) {
			take = nil
		}
		var first chan error
		if len(sent) > 0 {
			first = sent[0].result
		}
		select {
		case w := <-take:
			in.collect(w, l.maxWrite())
		case err := <-first:
			if _, lost := isLost(err); lost {
				first <- err
				open = collectUnanswered(sent)
				if p.Err() != nil {
					err = p.inputGone() // the next connection would not help
				}
				return open, err
			}
			sent[0].write.settle(err)
			sent = sent[1:]
		case <-ended:
			queue, ended = nil, nil // from now on wait for answers only
		case <-p.client.ctx.Done():
			return collectUnanswered(sent), p.inputGone()
		}
	}
	return nil, p.inputGone()
}

// maxWrite is the most input in one request on this connection.
func (l *Link) maxWrite() int {
	if l.tether == nil {
		return maxOnlyWrite
	}
	return maxWrite
}

// mayWrite reports whether a write may join those that are on their way.
func (l *Link) mayWrite(sent []sentWrite, w *write) bool {
	if len(sent) == 0 {
		return true
	}
	bytes := len(w.data)
	for _, s := range sent {
		bytes += len(s.write.data)
	}
	return l.tether != nil && len(sent) < maxWrites && bytes <= inputWindow
}

// full reports whether enough input for a request waits for its turn.
func (in *input) full(enough int) bool {
	bytes := 0
	for _, w := range in.waiting {
		if w.end {
			return true
		}
		bytes += len(w.data)
	}
	return bytes >= enough
}

// collect adds a write to those that wait for their turn. Small ones become one.
func (in *input) collect(w *write, most int) {
	if n := len(in.waiting); n > 0 && !w.end {
		last := in.waiting[n-1]
		if !last.end && len(last.data)+len(w.data) <= most {
			last.add(w)
			return
		}
	}
	w.id = in.process.client.NewID()
	in.waiting = append(in.waiting, w)
}

// add makes another write a part of this one.
func (w *write) add(more *write) {
	w.data = append(w.data, more.data...)
	for _, s := range more.receipts {
		if last := &w.receipts[len(w.receipts)-1]; last.receipt == s.receipt {
			last.writes += s.writes
		} else {
			w.receipts = append(w.receipts, s)
		}
	}
}

// collectUnanswered waits for the outcome of all that was sent, and returns the
// writes that were not answered.
func collectUnanswered(sent []sentWrite) (open []*write) {
	for _, s := range sent {
		err := <-s.result
		if _, lost := isLost(err); lost {
			open = append(open, s.write)
			continue
		}
		s.write.settle(err)
	}
	return open
}

// send sends a write and does not wait for its outcome.
func (in *input) send(l *Link, w *write) sentWrite {
	p := in.process
	s := sentWrite{w, make(chan error, 1)}
	method, params := wire.MethodProcessWrite, any(&wire.WriteParams{ProcessID: p.id, Chunk: w.data, WriteID: w.id})
	if w.end {
		method, params = wire.MethodProcessCloseStdin, &wire.CloseStdinParams{ProcessID: p.id, OnceID: &w.id}
	}
	// It waits for a slot: if it were refused, later input would overtake it.
	call, err := l.begin(p.client.ctx, patient, method, params)
	if err != nil {
		s.result <- err
		return s
	}
	p.client.tasks.Go(func() {
		var r struct {
			Status string `json:"status" wire:"default"`
		}
		err := call.outcome(&r)
		if err == nil && !w.end {
			err = writeError(r.Status)
		}
		s.result <- err
	})
	return s
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
// input arrives once and in order, even if connections are lost. If the context ends first,
// it may still arrive.
func (p *Process) Write(ctx context.Context, data []byte) error {
	var r receipt
	for {
		n := min(len(data), maxWrite)
		if err := p.input.submit(ctx, &write{data: bytes.Clone(data[:n])}, &r); err != nil {
			return err
		}
		if data = data[n:]; len(data) == 0 {
			return r.wait(ctx)
		}
	}
}

// CloseStdin ends the command's standard input, after all earlier writes. On a terminal it
// types the end-of-file character.
func (p *Process) CloseStdin(ctx context.Context) error {
	if !p.client.Has(FeatureCloseStdin) {
		return unsupported("closing standard input")
	}
	var r receipt
	if err := p.input.submit(ctx, &write{end: true}, &r); err != nil {
		return err
	}
	return r.wait(ctx)
}

// Stdin returns a writer for the command's standard input. It does not wait for each
// answer: up to 2 MiB are on their way at a time, small pieces together, so an error may
// come from an earlier Write. Close waits for all answers and then ends the input.
func (p *Process) Stdin() io.WriteCloser { return &stdin{process: p} }

// A stdin is for one goroutine.
type stdin struct {
	process *Process
	receipt receipt
	closed  bool
}

// Write implements io.Writer.
func (s *stdin) Write(data []byte) (n int, err error) {
	for n < len(data) {
		if err := s.receipt.failed(); err != nil {
			return n, err
		}
		if s.closed {
			return n, ErrStdinClosed
		}
		piece := data[n:min(len(data), n+maxWrite)]
		if err := s.process.input.submit(context.Background(), &write{data: bytes.Clone(piece)}, &s.receipt); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// Close implements io.Closer.
func (s *stdin) Close() error {
	if s.closed {
		return ErrStdinClosed
	}
	if err := s.receipt.wait(context.Background()); err != nil {
		return err
	}
	s.closed = true
	return s.process.CloseStdin(context.Background())
}
