package proc

import (
	"sync"

	"github.com/tetherexec/tether/internal/outlog"
)

// A Capture is the Sink of a process with little output: it keeps the beginning of
// the output, and the exit code. The zero value keeps no output.
type Capture struct {
	Limit int           // how many bytes are kept
	Only  outlog.Stream // the stream to keep; 0: all

	// Each, if not nil, is called for each piece of output, one at a time, with the
	// output that is kept so far. If it returns an error, that stream is not read any
	// further.
	Each func(s outlog.Stream, piece, kept []byte) error

	mu     sync.Mutex
	kept   []byte
	code   int
	exited chan struct{} // closed at the exit; made on first use
}

// Append implements Sink.
func (c *Capture) Append(s outlog.Stream, p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Only == 0 || c.Only == s {
		c.kept = append(c.kept, p[:min(len(p), max(0, c.Limit-len(c.kept)))]...)
	}
	if c.Each == nil {
		return nil
	}
	return c.Each(s, p, c.kept)
}

// Exit implements Sink.
func (c *Capture) Exit(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code = code
	close(c.exitedLocked())
}

// Cut implements Sink.
func (c *Capture) Cut() {}

// Close implements Sink.
func (c *Capture) Close() {}

// Exited is closed when the process itself has exited. Output may still come.
func (c *Capture) Exited() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exitedLocked()
}

func (c *Capture) exitedLocked() chan struct{} {
	if c.exited == nil {
		c.exited = make(chan struct{})
	}
	return c.exited
}

// Result returns the output that is kept so far and, once the process has exited, its
// exit code. The output must not be changed.
func (c *Capture) Result() (output []byte, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept, c.code
}
