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

// outputPushes are the pushes of one connection.
type outputPushes struct {
	mu     sync.Mutex
	active map[*outputPush]struct{} // the pushes that are registered with a log
	ended  bool                     // the connection has ended: no further push begins
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

// end unregisters the pushes from their logs, which outlive the connection.
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
	prefix  []byte // beginning of an output notification, up to the sequence number
	visit   func(outlog.Entry)
	batch   *rpc.Batch    // where encode puts the event
	feed    *rpc.Feed     // calls Next
	pacing  *resumePacing // nil: no limit but that of the connection

	stopListening func()      // guarded by outputPushes, as is timer
	timer         *time.Timer // ends the pacing; nil: none is needed
}

// After a resume the reference client buffers events until it has processed the answer to
// its first read. At 256 events or 1 MiB it gives up the process, and a fast server pushes
// that in milliseconds. So after pacingEvents or pacingBytes the push pauses: until pacingTime
// after its first event, and until the client has answered a ping that follows these events. A
// client that gets no processor is slow to answer, and the pause grows with it: it lasts twice
// as long as the answer has taken, but ends after pacingPatience.
const (
	pacingTime     = 100 * time.Millisecond
	pacingEvents   = 128
	pacingBytes    = 512 << 10
	pacingLook     = 10 * time.Millisecond // between two looks for the answer to the ping
	pacingPatience = 5 * time.Second
)

// resumePacing counts what was pushed after a resume. The answer to the client's first read
// was sent before.
type resumePacing struct {
	events, bytes int
	until         time.Time // end of the pause, as far as it is known; zero: nothing was pushed yet
	pinged        time.Time // beginning of the pause; zero: there is none yet
	answers       uint64    // that had come by then
	heard         bool      // the client has answered since
}

// A pacedPeer is what the pacing asks of a connection.
type pacedPeer interface {
	Ping() (number uint64)
	CanPing() bool
	Signs() rpc.Signs
}

func (r *resumePacing) pushed(bytes int) {
	if r.until.IsZero() {
		r.until = time.Now().Add(pacingTime)
	}
	r.events++
	r.bytes += bytes
}

// left is for how long nothing more may be pushed, at least. It is negative when the pause is over.
func (r *resumePacing) left(peer pacedPeer) time.Duration {
	if r.events < pacingEvents && r.bytes < pacingBytes {
		return 0
	}
	now := time.Now()
	if r.pinged.IsZero() {
		r.pinged, r.answers = now, peer.Signs().Answers
		peer.Ping()
	}
	if !r.heard {
		r.hear(peer, now)
	}
	if !r.heard {
		return pacingLook
	}
	return r.until.Sub(now)
}

// hear looks whether the client has answered the ping. Its requests are no answer: it may have sent those for other processes before it got the events.
func (r *resumePacing) hear(peer pacedPeer, now time.Time) {
	took := now.Sub(r.pinged)
	switch {
	case !peer.CanPing():
	case peer.Signs().Answers != r.answers:
		if again := now.Add(took); again.After(r.until) {
			r.until = again
		}
	case took < pacingPatience:
		return
	}
	r.heard = true
}

// pausedByPacing reports whether nothing may be pushed now. When that may be over, Next is called
// again.
func (p *outputPush) pausedByPacing() bool {
	if p.pacing == nil {
		return false
	}
	left := p.pacing.left(p.conn.rpc)
	if left < 0 {
		p.pacing = nil
	}
	if left <= 0 {
		return false
	}
	all := &p.conn.pushes
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.ended {
		return true
	}
	if p.timer == nil {
		p.timer = time.AfterFunc(left, p.feed.Wake)
	} else {
		p.timer.Reset(left)
	}
	return true
}

// notificationOverhead is an upper bound for the size of an output notification
// without its prefix and chunk.
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
		// Events that were sent on an earlier connection were dropped from the log.
		// The client would wait for them as if they were late. Closing the
		// connection makes it resume and read: the answer shows what is missing.
		p.conn.rpc.Close(&rpc.CloseError{Code: rpc.ClosePolicy, Reason: "output that was sent before is no longer kept"})
	case !errors.Is(err, io.EOF) && !errors.Is(err, outlog.ErrEnded):
		p.conn.log.Error("output cannot be read", "process", p.process.ID, "err", err) // a client that reads the output gets the error too
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
		b = appendLimit(b, p.process.Command)
		b = appendFailure(b, p.process)
		b = appendUsage(b, p.process)
	} else {
		b = appendSurvivors(b, p.process)
	}
	p.batch.Seal(append(b, "}}"...))
}
