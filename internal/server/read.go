package server

import (
	"slices"
	"strconv"

	"github.com/segmentio/asm/base64" // vectorised: encoding is most of the server's own work

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// What a read may look at while the connection's reader waits for it. A larger
// one gets a goroutine, and a permit for its answer.
const (
	inlineEvents = 2
	inlineBytes  = 8 << 10
)

// readOutput answers process/read: at once if there is something to say, or
// else when there is.
func (c *conn) readOutput(a *session.Attachment, r *rpc.Request, p *wire.ReadParams, done func()) {
	read, err := a.Read(p)
	if err != nil {
		defer done()
		c.fail(r, err)
		return
	}
	ready := read.Ready()
	if ready && read.Small(inlineEvents, inlineBytes) {
		defer done()
		c.answerRead(r, read)
		return
	}
	wait := !ready && c.polls.Add(1) <= maxPolls
	c.tasks.Go(func() {
		defer done()
		if !ready {
			defer c.polls.Add(-1)
		}
		if wait {
			if err := read.Await(a.Context()); err != nil {
				c.fail(r, err)
				return
			}
		}
		if err := r.Permit(c.rpc.Context(), encodedSize(read.MaxBytes())); err != nil {
			c.fail(r, err)
			return
		}
		c.answerRead(r, read)
	})
}

// encodedSize is about how large n bytes of output are in an answer.
func encodedSize(n int) int64 { return int64(base64.StdEncoding.EncodedLen(n)) + 4096 }

func (c *conn) answerRead(r *rpc.Request, read *session.Read) {
	msg := append(make([]byte, 0, 512), `{"id":`...)
	msg = r.ID.AppendJSON(msg)
	msg = append(msg, `,"result":{"chunks":[`...)
	first := true
	page, err := read.Collect(func(e outlog.Entry) {
		if !first {
			msg = append(msg, ',')
		}
		first = false
		msg = append(msg, `{"seq":`...)
		msg = strconv.AppendUint(msg, e.Seq, 10)
		msg = appendChunk(msg, e)
		msg = append(msg, '}')
	})
	if err != nil {
		c.fail(r, err)
		return
	}
	msg = append(msg, `],"nextSeq":`...)
	msg = strconv.AppendUint(msg, page.Next, 10)
	msg = append(msg, `,"exited":`...)
	msg = strconv.AppendBool(msg, page.Exited)
	msg = append(msg, `,"exitCode":`...)
	if page.Exited {
		msg = strconv.AppendInt(msg, int64(page.ExitCode), 10)
	} else {
		msg = append(msg, "null"...)
	}
	msg = append(msg, `,"closed":`...)
	msg = strconv.AppendBool(msg, page.Closed)
	msg = append(msg, `,"failure":null,"sandboxDenied":`...)
	msg = strconv.AppendBool(msg, page.Exited && read.Process.SandboxDenied())
	msg = append(msg, `}}`...)
	read.Answer(page, func(sent func()) { r.ReplyEncoded(msg, sent) })
}

// appendChunk appends the members "stream" and "chunk" of an output event.
func appendChunk(b []byte, e outlog.Entry) []byte {
	b = append(b, `,"stream":"`...)
	b = append(b, e.Stream.String()...)
	b = append(b, `","chunk":"`...)
	n := base64.StdEncoding.EncodedLen(len(e.Data))
	b = slices.Grow(b, n+len(`"}}`))
	base64.StdEncoding.Encode(b[len(b):len(b)+n], e.Data)
	return append(b[:len(b)+n], '"')
}
