package appserver

import (
	"errors"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

const (
	// stdinQueue limits the accepted input that the command has not read, besides
	// what proc holds. One write of any size always fits.
	stdinQueue = 8 << 20

	// writeCost is the cost of a write besides its bytes.
	writeCost = 64

	// stdinTimeout is how long a write waits for room in the queue.
	stdinTimeout = 30 * time.Second
)

// An input takes writes for a command in order. Its callers never wait: a write
// that finds no room gets its result later, by a callback.
type input struct {
	process *process

	mu        sync.Mutex
	waiting   []*write // writes without room, oldest first
	queued    int      // cost of accepted writes that proc has not queued yet
	admitting bool     // a goroutine is admitting writes, one after the other
	closed    bool     // no more bytes may follow
	ended     bool     // the command has exited, or is being killed
	overdue   *time.Timer
}

// A write is one request.
type write struct {
	data  []byte
	close bool
	done  func(error)
	since time.Time
}

// write queues data and, if asked to, the end of the input. done is called once,
// from any goroutine, maybe before write returns: with nil when the bytes are in
// the queue, and with an error if nothing of them will be written.
func (in *input) write(data []byte, closing bool, done func(error)) {
	w := &write{data, closing, done, time.Now()}
	in.mu.Lock()
	if in.ended {
		in.mu.Unlock()
		done(notRunning(in.process.handle))
		return
	}
	in.waiting = append(in.waiting, w)
	in.mu.Unlock()
	in.admit()
}

// admit accepts the writes for which there is room, in order.
func (in *input) admit() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.admitting { // the goroutine that is admitting will check again
		return
	}
	in.admitting = true
	for len(in.waiting) > 0 && in.roomLocked(in.waiting[0]) {
		w := in.waiting[0]
		in.waiting = in.waiting[1:]
		refused := in.closed && len(w.data) > 0
		closing := w.close && !in.closed && !refused
		in.closed = in.closed || closing
		if !refused {
			in.queued += w.cost()
		}
		in.mu.Unlock()
		if refused {
			w.done(wire.Errorf(wire.CodeInvalidRequest, "stdin is already closed"))
		} else {
			in.pass(w, closing)
		}
		in.mu.Lock()
	}
	in.admitting = false
	switch {
	case len(in.waiting) == 0:
		in.waiting = nil
		in.stopLocked()
	case in.overdue == nil:
		in.overdue = time.AfterFunc(in.process.conn.server.stdinTimeout, in.lookOverdue)
	}
}

func (w *write) cost() int {
	if len(w.data) == 0 {
		return 0
	}
	return len(w.data) + writeCost
}

func (in *input) roomLocked(w *write) bool {
	return in.queued == 0 || in.queued+w.cost() <= stdinQueue || w.cost() == 0
}

// pass hands an accepted write to the child. If the child does not read it, that is
// no error for the client.
func (in *input) pass(w *write, closing bool) {
	child, tty := in.process.startedChild(), in.process.params.TTY
	if len(w.data) > 0 {
		cost := w.cost()
		child.Write(w.data, func(err error) {
			in.mu.Lock()
			in.queued -= cost
			in.mu.Unlock()
			if err != nil && (errors.Is(err, proc.ErrTerminated) || in.process.isEnding()) {
				in.end()
			} else {
				in.admit()
			}
		})
	}
	switch {
	case closing && tty:
		in.typeEnd()
	case closing:
		child.CloseStdin() // an error means that it is closed already
	}
	w.done(nil)
}

// endOfFile is the default end-of-file character of a terminal.
const endOfFile = 4

// typeEnd ends the input of a terminal as a person would: it ends the last line
// first.
func (in *input) typeEnd() {
	child := in.process.startedChild()
	child.Write([]byte{'\n'}, func(error) {})
	if child.CloseStdin() != nil { // the terminal has no end-of-file character now
		child.Write([]byte{endOfFile}, func(error) {})
	}
}

// lookOverdue refuses all waiting writes once the oldest has waited too long. Later
// writes must not be accepted in its place: the input would have a gap.
func (in *input) lookOverdue() {
	in.mu.Lock()
	in.overdue = nil
	timeout := in.process.conn.server.stdinTimeout
	if len(in.waiting) == 0 {
		in.mu.Unlock()
		return
	}
	if left := timeout - time.Since(in.waiting[0].since); left > 0 {
		in.overdue = time.AfterFunc(left, in.lookOverdue)
		in.mu.Unlock()
		return
	}
	refused := in.waiting
	in.waiting = nil
	in.mu.Unlock()
	for _, w := range refused {
		w.done(wire.Errorf(wire.CodeOverloaded, "stdin queue of process %s is full: it has not read its input for %v; nothing of this write was queued",
			wire.Quote(in.process.handle), timeout))
	}
}

func (in *input) stopLocked() {
	if in.overdue != nil {
		in.overdue.Stop()
		in.overdue = nil
	}
}

// end refuses all waiting writes and all that follow.
func (in *input) end() {
	in.mu.Lock()
	in.ended = true
	refused := in.waiting
	in.waiting = nil
	in.stopLocked()
	in.mu.Unlock()
	for _, w := range refused {
		w.done(notRunning(in.process.handle))
	}
}
