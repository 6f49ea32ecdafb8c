package server

import (
	"context"
	"slices"
	"strconv"

	"github.com/segmentio/asm/base64" // vectorised: encoding is most of the server's own work

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// Limits for a read that the connection's reader answers itself. A larger read gets
// a goroutine and a permit for its answer.
const (
	inlineEvents = 2
	inlineBytes  = 8 << 10
)

// readOutput answers process/read: at once if there is something to report,
// otherwise as soon as there is.
func (r *request) readOutput(p *wire.ReadParams) error {
	read, err := r.attachment.Read(p)
	if err != nil {
		return err
	}
	switch {
	case !read.Ready() && r.conn.beginPoll():
		r.poll(read)
	case read.Small(inlineEvents, inlineBytes):
		r.answerRead(read)
	default:
		r.conn.tasks.Go(func() { r.answerLargeRead(read) })
	}
	return nil
}

// A pollContext ends when the reads of a connection should not wait any more; its cause says why.
type pollContext struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// endPolls answers the reads that wait.
func (c *conn) endPolls() {
	if c.handshake.attachment.Load() != nil {
		c.polling.end(errReplaced)
	}
}

// beginPoll reports whether one more read may wait.
func (c *conn) beginPoll() bool {
	if c.polls.Add(1) <= maxPolls {
		return true
	}
	c.polls.Add(-1)
	return false
}

// poll answers a read as soon as there is something to report. The goroutine that
// appends a small event also answers the read.
func (r *request) poll(read *session.Read) {
	c := r.conn
	c.tasks.Add(1)
	read.Await(c.polling.ctx, func(urgent bool, err error) {
		defer c.tasks.Done()
		c.polls.Add(-1)
		if err == errReplaced {
			err = nil // the client gets what there is, and repeats the read on its next connection
		}
		switch {
		case err != nil:
			c.tasks.Go(func() { r.fail(err) })
		case urgent && read.Small(inlineEvents, inlineBytes):
			r.answerRead(read)
		default:
			c.tasks.Go(func() { r.answerLargeRead(read) })
		}
	})
}

// answerLargeRead answers with a part of the output if there is no room for all of it:
// the client reads on from there.
func (r *request) answerLargeRead(read *session.Read) {
	most := encodedSize(read.MaxBytes())
	granted, err := r.PermitSome(r.conn.rpc.Context(), most)
	if err != nil {
		r.fail(err)
		return
	}
	if granted < most {
		read.Limit(decodedSize(granted))
	}
	r.answerRead(read)
}

// encodedSize is the approximate size of n bytes of output in an answer.
func encodedSize(n int) int64 { return int64(base64.StdEncoding.EncodedLen(n)) + 4096 }

// decodedSize is approximately how many bytes of output fit into an answer of size
// n.
func decodedSize(n int64) int { return int(n-4096) / 4 * 3 }

func (r *request) answerRead(read *session.Read) {
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
		r.fail(err)
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
	msg = append(msg, `,"failure":null`...)
	var denial launch.Denial
	if page.Exited {
		denial = read.Process.Command.Denial()
	}
	msg = appendDenial(msg, denial)
	if page.Exited {
		msg = appendLimit(msg, read.Process.Command)
		msg = appendFailure(msg, read.Process)
		msg = appendUsage(msg, read.Process)
	}
	if page.Closed {
		msg = appendSurvivors(msg, read.Process)
	}
	msg = append(msg, `}}`...)
	push, paced := read.BeginPush()
	if !push {
		r.ReplyEncoded(msg)
		return
	}
	r.ReplyEncodedLater(msg, func() { read.Process.Log.Sent(page.Next - 1) })
	r.conn.Push(read.Process, page.Next-1, paced) // after the answer
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

// appendLimit appends the member "tetherLimit" if the server has ended the command because of a limit.
func appendLimit(b []byte, c *launch.Command) []byte {
	if name := c.ReachedLimit(); name != "" {
		b = wire.AppendString(append(b, `,"tetherLimit":`...), name)
	}
	return b
}

// appendFailure appends the member "tetherFailure" of a process whose server was killed. It is not the member "failure":
// clients of the reference drop the output that comes with that.
func appendFailure(b []byte, p *session.Process) []byte {
	if why := p.Failure(); why != "" {
		b = wire.AppendString(append(b, `,"tetherFailure":`...), why)
	}
	return b
}

// appendUsage appends the member "tetherUsage" of a process that has exited, if its account is known.
func appendUsage(b []byte, p *session.Process) []byte {
	if u := p.Usage(); u != nil {
		b = wire.AppendValue(append(b, `,"tetherUsage":`...), u)
	}
	return b
}

// appendSurvivors appends the member "tetherSurvivors" of a process that is closed, if there are any.
func appendSurvivors(b []byte, p *session.Process) []byte {
	if left := p.Survivors(); len(left) > 0 {
		b = wire.AppendValue(append(b, `,"tetherSurvivors":`...), left)
	}
	return b
}

// appendDenial appends the members "sandboxDenied" and, if there are details,
// "tetherDenial".
func appendDenial(b []byte, d launch.Denial) []byte {
	b = append(b, `,"sandboxDenied":`...)
	b = strconv.AppendBool(b, d.Denied)
	if d.Fact != nil {
		b = append(append(b, `,"tetherDenial":`...), d.Fact.JSON()...)
	}
	return b
}
