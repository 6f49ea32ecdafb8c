package server

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/asm/base64"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// Push implements session.Peer: it pushes the events of a process.
func (c *conn) Push(p *session.Process, after uint64, paced bool) {
	push := &outputPush{conn: c, process: p, cursor: p.Log.Cursor(after)}
	if paced {
		push.pacing = new(resumePacing)
	}
	push.prefix = append(push.prefix, `{"method":"`+wire.NoteProcessOutput+`","params":{"processId":`...)
	push.prefix = wire.AppendString(push.prefix, p.ID)
	push.prefix = append(push.prefix, `,"seq":`...)
	push.visit = push.encode
	push.feed = c.rpc.Feed(push)
	c.pushes.begin(push)
}

// outputPushes are those of one connection.
type outputPushes struct {
	mu     sync.Mutex
	active map[*outputPush]struct{} // those that are registered with a log
	ended  bool                     // nothing is pushed any more
}

// begin registers a push with its log, unless the connection has ended.
func (all *outputPushes) begin(p *outputPush) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.ended {
		return
	}
	if all.active == nil {
		all.active = map[*outputPush]struct{}{}
	}
	all.active[p] = struct{}{}
	p.stopListening = p.process.Log.OnAppend(waker(p.feed))
	p.feed.Wake()
}

// end lets go of the logs when the connection has ended: they live on.
func (all *outputPushes) end() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.ended = true
	for p := range all.active {
		p.stopLocked()
	}
	all.active = nil
}

// waker returns a function that wakes a feed, at once if a client may be waiting for the event.
func waker(feed *rpc.Feed) func(urgent bool) {
	return func(urgent bool) {
		if urgent {
			feed.WakeNow()
		} else {
			feed.Wake()
		}
	}
}

// An outputPush turns the log of a process into notifications, one event each.
type outputPush struct {
	conn    *conn
	process *session.Process
	cursor  *outlog.Cursor
	prefix  []byte // of an output notification, up to the number
	visit   func(outlog.Entry)
	batch   *rpc.Batch    // where encode puts the event
	feed    *rpc.Feed     // which calls Next
	pacing  *resumePacing // nil: as much as the connection takes

	stopListening func()      // guarded by outputPushes, as is
	timer         *time.Timer // which ends the pacing; nil: it needs none
}

// pacingTime is how long a client that came back is given to digest the answer to its
// read, pacingEvents and pacingBytes are how much is pushed meanwhile. The reference client
// parks what comes before it has, and gives the process up at 256 events or 1 MiB: pushed
// at full speed, that is a matter of milliseconds.
const (
	pacingTime   = 100 * time.Millisecond
	pacingEvents = 128
	pacingBytes  = 512 << 10
)

// resumePacing says how much a client that came back was pushed, and since when. The answer
// to its read was sent before.
type resumePacing struct {
	events, bytes int
	until         time.Time // zero: nothing was pushed yet
}

func (r *resumePacing) pushed(bytes int) {
	if r.until.IsZero() {
		r.until = time.Now().Add(pacingTime)
	}
	r.events++
	r.bytes += bytes
}

// left is how long nothing more may be pushed.
func (r *resumePacing) left() time.Duration {
	if r.events < pacingEvents && r.bytes < pacingBytes {
		return 0
	}
	return time.Until(r.until)
}

// pausedByPacing reports whether nothing may be pushed now. Then Next is called again when it may.
func (p *outputPush) pausedByPacing() bool {
	if p.pacing == nil {
		return false
	}
	left := p.pacing.left()
	if left < 0 {
		p.pacing = nil
	}
	if left <= 0 {
		return false
	}
	all := &p.conn.pushes
	all.mu.Lock()
	defer all.mu.Unlock()
	if p.timer == nil && !all.ended {
		p.timer = time.AfterFunc(left, p.feed.Wake)
	}
	return true
}

// notificationOverhead is more than an output notification needs besides its
// prefix and its chunk.
const notificationOverhead = 64

// Next implements rpc.Source.
func (p *outputPush) Next(b *rpc.Batch) bool {
	if p.pausedByPacing() {
		return false
	}
	p.batch = b
	err := p.cursor.Next(p.visit)
	p.batch = nil
	switch {
	case err == nil:
		return true
	case errors.Is(err, outlog.ErrNone):
		return false
	case errors.Is(err, outlog.ErrEvicted):
		// Events that were sent on an earlier connection had to make room. A hole
		// would be taken for a delay: let the client come back and ask.
		p.conn.rpc.Close(&rpc.CloseError{Code: rpc.ClosePolicy, Reason: "output that was sent before is no longer kept"})
	case !errors.Is(err, io.EOF) && !errors.Is(err, outlog.ErrEnded):
		p.conn.log.Error("output cannot be read", "process", p.process.ID, "err", err) // whoever reads it is told as well
	}
	p.end()
	return false
}

func (p *outputPush) end() {
	all := &p.conn.pushes
	all.mu.Lock()
	defer all.mu.Unlock()
	p.stopLocked()
	delete(all.active, p)
}

func (p *outputPush) stopLocked() {
	p.stopListening()
	if p.timer != nil {
		p.timer.Stop()
	}
}

// Written implements rpc.Source.
func (p *outputPush) Written() { p.process.Log.Sent(p.cursor.Seq()) }

// encode adds the notification of an event to the batch. An output event is
// written straight into the frame.
func (p *outputPush) encode(e outlog.Entry) {
	if p.pacing != nil {
		p.pacing.pushed(len(e.Data))
	}
	if e.Kind != outlog.Output {
		p.encodeEnd(e)
		return
	}
	b := p.batch.Open(len(p.prefix) + notificationOverhead + base64.StdEncoding.EncodedLen(len(e.Data)))
	b = append(b, p.prefix...)
	b = strconv.AppendUint(b, e.Seq, 10)
	b = appendChunk(b, e)
	p.batch.Seal(append(b, "}}"...))
}

func (p *outputPush) encodeEnd(e outlog.Entry) {
	b := p.batch.Open(len(p.prefix) + notificationOverhead)
	method := wire.NoteProcessClosed
	if e.Kind == outlog.Exited {
		method = wire.NoteProcessExited
	}
	b = append(b, `{"method":"`+method+`","params":{"processId":`...)
	b = wire.AppendString(b, p.process.ID)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, e.Seq, 10)
	if e.Kind == outlog.Exited {
		b = append(b, `,"exitCode":`...)
		b = strconv.AppendInt(b, int64(e.ExitCode), 10)
		b = appendDenial(b, p.process.Command.Denial())
	}
	p.batch.Seal(append(b, "}}"...))
}
