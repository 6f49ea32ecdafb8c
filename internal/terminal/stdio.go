package terminal

import (
	"io"
	"os"
	"sync"
)

// Standard input and output are shared with other programs. If this program made them non-blocking,
// it would change them for all; and otherwise a Close does not end a blocked system call. So a
// goroutine makes the system call. After a Close it stays until the call returns or the process ends.

// InterruptibleReader returns a reader of f whose Close ends a blocked Read.
func InterruptibleReader(f *os.File) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, f)
		w.CloseWithError(err) // nil becomes io.EOF
	}()
	return r
}

// InterruptibleWriter returns a writer to f whose Close ends a blocked Write.
// There may be one Write at a time.
func InterruptibleWriter(f *os.File) io.WriteCloser {
	w := &detachedWriter{texts: make(chan []byte), results: make(chan writeResult, 1), closed: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	go w.run(f)
	return w
}

type writeResult struct {
	n   int
	err error
}

type detachedWriter struct {
	texts   chan []byte
	results chan writeResult // room for one, so that run never waits to deliver
	closed  chan struct{}
	close   func() // once
}

func (w *detachedWriter) run(f *os.File) {
	for {
		select {
		case text := <-w.texts:
			n, err := f.Write(text)
			w.results <- writeResult{n, err}
		case <-w.closed:
			return
		}
	}
}

func (w *detachedWriter) Write(text []byte) (int, error) {
	select {
	case w.texts <- text:
	case <-w.closed:
		return 0, os.ErrClosed
	}
	select {
	case r := <-w.results:
		return r.n, r.err
	case <-w.closed:
		return 0, os.ErrClosed
	}
}

func (w *detachedWriter) Close() error {
	w.close()
	return nil
}
