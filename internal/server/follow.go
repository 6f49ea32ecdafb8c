package server

import (
	"errors"
	"strconv"

	"github.com/segmentio/asm/base64"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// Follow implements session.Peer: it pushes the events of a process.
func (c *conn) Follow(p *session.Process, after uint64) {
	f := &follow{process: p, cursor: p.Log.Cursor(after)}
	f.prefix = append(f.prefix, `{"method":"`+wire.NoteProcessOutput+`","params":{"processId":`...)
	f.prefix = wire.AppendString(f.prefix, p.ID)
	f.prefix = append(f.prefix, `,"seq":`...)
	f.visit = f.encode
	feed := c.rpc.Feed(f)
	f.unfollow = p.Log.Follow(feed.Wake)
	feed.Wake()
}

// A follow turns the log of a process into notifications, one event each.
type follow struct {
	process  *session.Process
	cursor   *outlog.Cursor
	prefix   []byte // of an output notification, up to the number
	visit    func(outlog.Entry)
	batch    *rpc.Batch // where encode puts the event
	unfollow func()
}

// notificationOverhead is more than an output notification needs besides its
// prefix and its chunk.
const notificationOverhead = 64

// Next implements rpc.Source.
func (f *follow) Next(b *rpc.Batch) bool {
	f.batch = b
	err := f.cursor.Next(f.visit)
	f.batch = nil
	if err == nil {
		return true
	}
	if !errors.Is(err, outlog.ErrNone) {
		f.unfollow()
	}
	return false
}

// Written implements rpc.Source.
func (f *follow) Written() { f.process.Sent(f.cursor.Seq()) }

// encode adds the notification of an event to the batch. An output event is
// written straight into the frame.
func (f *follow) encode(e outlog.Entry) {
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
		b = append(b, `,"sandboxDenied":`...)
		b = strconv.AppendBool(b, f.process.SandboxDenied())
	}
	f.batch.Seal(append(b, "}}"...))
}
