package client

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/tetherexec/tether/wire"
)

// An OutputReader reads the output of a process as plain bytes. It ends with io.EOF
// when the output has ended; lost output is a *GapError.
type OutputReader struct {
	ctx    context.Context
	sub    *Subscription
	stream string // empty: all
	rest   []byte
	err    error
	closed atomic.Bool
}

// Output reads everything that the command prints, in the order in which the server
// has read it. [Process.Stdout] and [Process.Stderr] may be used besides: each reader gets
// all of its output. A reader that is not read to its end has to be closed. Otherwise it
// blocks the command in the end, as a pipe does, and [Process.Wait] reports it.
func (p *Process) Output() *OutputReader { return p.reader("") }

// Stdout reads the standard output of a command without a terminal.
func (p *Process) Stdout() *OutputReader { return p.reader(wire.StreamStdout) }

// Stderr reads the standard error of a command without a terminal.
func (p *Process) Stderr() *OutputReader { return p.reader(wire.StreamStderr) }

func (p *Process) reader(stream string) *OutputReader {
	return &OutputReader{ctx: context.Background(), sub: p.Subscribe(), stream: stream}
}

var (
	_ io.ReadCloser = (*OutputReader)(nil)
	_ io.WriterTo   = (*OutputReader)(nil)
)

// Read implements io.Reader.
func (r *OutputReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	r.sub.uses.Add(1)
	if err := r.fill(); err != nil {
		return 0, err
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// WriteTo implements io.WriterTo.
func (r *OutputReader) WriteTo(w io.Writer) (total int64, err error) {
	r.sub.copying.Store(true)
	defer r.sub.copying.Store(false)
	for {
		switch err := r.fill(); err {
		case nil:
		case io.EOF:
			return total, nil
		default:
			return total, err
		}
		n, err := w.Write(r.rest)
		total += int64(n)
		r.rest = r.rest[n:]
		if err != nil {
			return total, err
		}
	}
}

// Close ends the reading. Output that was not read is given up: a Read that waits, and
// each later one, returns ErrReaderClosed and no bytes. Any goroutine may call it.
func (r *OutputReader) Close() error {
	r.closed.Store(true)
	r.sub.Close()
	return nil
}

// fill waits until there is something to read.
func (r *OutputReader) fill() error {
	for {
		switch {
		case r.closed.Load():
			r.rest = nil
			return ErrReaderClosed
		case len(r.rest) > 0:
			return nil
		case r.err != nil:
			return r.err
		}
		e, err := r.sub.Next(r.ctx)
		switch {
		case err != nil:
			r.err = err
		case e.Kind == Gap:
			r.err = &GapError{e.First, e.Seq}
			r.sub.Close() // left open, it would block the command, and Wait
		case e.Kind == Output && (r.stream == "" || r.stream == e.Stream):
			r.rest = e.Data
		}
	}
}
