package server

import (
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/segmentio/asm/base64"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// Follow implements session.Peer: it pushes the events of a process.
func (c *conn) Follow(p *session.Process, after uint64, gently bool) {
	f := &follow{conn: c, process: p, cursor: p.Log.Cursor(after)}
	if gently {
		f.restraint = new(restraint)
	}
	f.prefix = append(f.prefix, `{"method":"`+wire.NoteProcessOutput+`","params":{"processId":`...)
	f.prefix = wire.AppendString(f.prefix, p.ID)
	f.prefix = append(f.prefix, `,"seq":`...)
	f.visit = f.encode
	f.feed = c.rpc.Feed(f)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if c.follows == nil {
		c.follows = map[*follow]struct{}{}
	}
	c.follows[f] = struct{}{}
	f.unfollow = p.Log.Follow(waker(f.feed))
	f.feed.Wake()
}

// waker wakes a feed, at once if somebody may be waiting for the event.
func waker(feed *rpc.Feed) func(urgent bool) {
	return func(urgent bool) {
		if urgent {
			feed.WakeNow()
		} else {
			feed.Wake()
		}
	}
}

// endFollows lets go of the logs when the connection has ended: they live on.
func (c *conn) endFollows() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for f := range c.follows {
		f.stopLocked()
	}
	c.follows = nil
}

// A follow turns the log of a process into notifications, one event each.
type follow struct {
	conn      *conn
	process   *session.Process
	cursor    *outlog.Cursor
	prefix    []byte // of an output notification, up to the number
	visit     func(outlog.Entry)
	batch     *rpc.Batch // where encode puts the event
	feed      *rpc.Feed  // which calls Next
	restraint *restraint // nil: as much as the connection takes

	unfollow func()      // guarded by the connection, as is
	timer    *time.Timer // which ends the restraint; nil: it needs none
}

// digestTime is how long a client that came back is given to digest the answer to its
// read, digestEvents and digestBytes are how much is pushed meanwhile. The reference client
// parks what comes before it has, and gives the process up at 256 events or 1 MiB: pushed
// at full speed, that is a matter of milliseconds.
const (
	digestTime   = 100 * time.Millisecond
	digestEvents = 128
	digestBytes  = 512 << 10
)

// A restraint says how much a client that came back was pushed, and since when. The answer
// to its read was sent before.
type restraint struct {
	events, bytes int
	until         time.Time // zero: nothing was pushed yet
}

func (r *restraint) pushed(bytes int) {
	if r.until.IsZero() {
		r.until = time.Now().Add(digestTime)
	}
	r.events++
	r.bytes += bytes
}

// left is how long nothing more may be pushed.
func (r *restraint) left() time.Duration {
	if r.events < digestEvents && r.bytes < digestBytes {
		return 0
	}
	return time.Until(r.until)
}

// restrained reports whether nothing may be pushed now. Then Next is called again when it may.
func (f *follow) restrained() bool {
	if f.restraint == nil {
		return false
	}
	left := f.restraint.left()
	if left < 0 {
		f.restraint = nil
	}
	if left <= 0 {
		return false
	}
	f.conn.mu.Lock()
	defer f.conn.mu.Unlock()
	if f.timer == nil && !f.conn.ended {
		f.timer = time.AfterFunc(left, f.feed.Wake)
	}
	return true
}

// notificationOverhead is more than an output notification needs besides its
// prefix and its chunk.
const notificationOverhead = 64

// Next implements rpc.Source.
func (f *follow) Next(b *rpc.Batch) bool {
	if f.restrained() {
		return false
	}
	f.batch = b
	err := f.cursor.Next(f.visit)
	f.batch = nil
	switch {
	case err == nil:
		return true
	case errors.Is(err, outlog.ErrNone):
		return false
	case errors.Is(err, outlog.ErrEvicted):
		// Events that were sent on an earlier connection had to make room. A hole
		// would be taken for a delay: let the client come back and ask.
		f.conn.rpc.Close(&rpc.CloseError{Code: rpc.ClosePolicy, Reason: "output that was sent before is no longer kept"})
	case !errors.Is(err, io.EOF) && !errors.Is(err, outlog.ErrEnded):
		f.conn.log.Error("output cannot be read", "process", f.process.ID, "err", err) // whoever reads it is told as well
	}
	f.end()
	return false
}

func (f *follow) end() {
	f.conn.mu.Lock()
	defer f.conn.mu.Unlock()
	f.stopLocked()
	delete(f.conn.follows, f)
}

func (f *follow) stopLocked() {
	f.unfollow()
	if f.timer != nil {
		f.timer.Stop()
	}
}

// Written implements rpc.Source.
func (f *follow) Written() { f.process.Sent(f.cursor.Seq()) }

// encode adds the notification of an event to the batch. An output event is
// written straight into the frame.
func (f *follow) encode(e outlog.Entry) {
	if f.restraint != nil {
		f.restraint.pushed(len(e.Data))
	}
	if e.Kind != outlog.Output {
		f.encodeEnd(e)
		return
	}
	b := f.batch.Open(len(f.prefix) + notificationOverhead + base64.StdEncoding.EncodedLen(len(e.Data)))
	b = append(b, f.prefix...)
	b = strconv.AppendUint(b, e.Seq, 10)
	b = appendChunk(b, e)
	f.batch.Seal(append(b, "}}"...))
}

func (f *follow) encodeEnd(e outlog.Entry) {
	b := f.batch.Open(len(f.prefix) + notificationOverhead)
	method := wire.NoteProcessClosed
	if e.Kind == outlog.Exited {
		method = wire.NoteProcessExited
	}
	b = append(b, `{"method":"`+method+`","params":{"processId":`...)
	b = wire.AppendString(b, f.process.ID)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, e.Seq, 10)
	if e.Kind == outlog.Exited {
		b = append(b, `,"exitCode":`...)
		b = strconv.AppendInt(b, int64(e.ExitCode), 10)
		b = appendDenial(b, f.process.Command.Denial())
	}
	f.batch.Seal(append(b, "}}"...))
}
