package proc

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// testTimeout is how long a test waits for an event before it fails.
const testTimeout = hang.Limit

// A recorder is a sink that records events, and that a test can block.
type recorder struct {
	t *testing.T

	mu      sync.Mutex
	output  map[outlog.Stream]*strings.Builder
	events  []string // "out", "exit", "close"; a run of output is one event
	code    int
	closed  bool
	refuse  bool
	cuts    int
	cutting bool          // Cut ends the blocking
	blocked chan struct{} // if not nil, Append waits until it is closed
	waiting chan struct{} // closed when an Append waits
	changed chan struct{}
}

func newRecorder(t *testing.T) *recorder {
	return &recorder{t: t, output: make(map[outlog.Stream]*strings.Builder), changed: make(chan struct{})}
}

func (r *recorder) eventLocked(name string) {
	if n := len(r.events); name != "out" || n == 0 || r.events[n-1] != "out" {
		r.events = append(r.events, name)
	}
	if r.closed && name != "close" {
		r.t.Errorf("%s after close", name)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Append(s outlog.Stream, p []byte) error {
	r.mu.Lock()
	blocked, waiting := r.blocked, r.waiting
	r.mu.Unlock()
	if blocked != nil {
		select {
		case <-waiting:
		default:
			close(waiting)
		}
		<-blocked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse {
		return errors.New("full")
	}
	if r.output[s] == nil {
		r.output[s] = new(strings.Builder)
	}
	r.output[s].Write(p)
	r.eventLocked("out")
	return nil
}

func (r *recorder) Exit(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code = code
	r.eventLocked("exit")
}

// Cut lets a blocked Append go.
func (r *recorder) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cuts++
	if r.blocked != nil && r.cutting {
		close(r.blocked)
		r.blocked = nil
	}
}

func (r *recorder) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.t.Error("closed twice")
	}
	r.closed = true
	r.eventLocked("close")
}

// text is the output of a stream so far.
func (r *recorder) text(s outlog.Stream) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.output[s] == nil {
		return ""
	}
	return r.output[s].String()
}

func (r *recorder) eventOrder() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.events, " ")
}

func (r *recorder) await(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(testTimeout)
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			r.t.Fatalf("waited too long for %s; events: %s", what, r.eventOrder())
		}
	}
}

func (r *recorder) awaitText(s outlog.Stream, part string) {
	r.t.Helper()
	r.await("output "+part, func() bool { return strings.Contains(r.text(s), part) })
}

func (r *recorder) awaitEvent(name string) {
	r.t.Helper()
	r.await("event "+name, func() bool { return strings.Contains(r.eventOrder(), name) })
}

// block makes Append wait until the returned function is called.
func (r *recorder) block() (unblock func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blocked, r.waiting = make(chan struct{}), make(chan struct{})
	blocked := r.blocked
	return sync.OnceFunc(func() {
		r.mu.Lock()
		r.blocked = nil
		r.mu.Unlock()
		close(blocked)
	})
}
