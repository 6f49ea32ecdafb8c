package appserver

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/segmentio/asm/base64"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// notes turn the output of a process and its end into notifications. They are used
// by the writer of the connection.
type notes struct {
	cursor   *outlog.Cursor
	prefix   []byte // of an output notification, up to the stream
	batch    *rpc.Batch
	visit    func(outlog.Entry)
	stdoutAt int64 // bytes sent
	stderrAt int64
	emptied  [2]bool // a stream of which nothing is wanted was reported
	ended    bool    // the log has been read to its end
	exitSent bool

	exitBytes int64 // of collected output, in the last notification
}

func (p *process) prepareNotes() {
	p.feed = p.conn.rpc.Feed(p)
	if p.log == nil {
		return
	}
	p.cursor = p.log.Cursor(0)
	p.prefix = append(p.prefix, `{"method":"`+wire.NoteOutputDelta+`","params":{"processHandle":`...)
	p.prefix = wire.AppendString(p.prefix, p.handle)
	p.prefix = append(p.prefix, `,"stream":"`...)
	p.visit = func(e outlog.Entry) {
		switch e.Kind {
		case outlog.Output:
			p.encodeDelta(e)
		case outlog.Closed:
			p.ended = true
		}
	}
}

// Next implements rpc.Source.
func (p *process) Next(b *rpc.Batch) bool {
	if p.exitSent {
		return false
	}
	p.batch = b
	defer func() { p.batch = nil }()
	if p.log == nil {
		p.mu.Lock()
		isOver := p.state == over
		p.mu.Unlock()
		return isOver && p.encodeExit()
	}
	if p.encodeEmpty() {
		return true
	}
	if !p.ended {
		if err := p.cursor.Next(p.visit); err != nil {
			return false
		}
		if !p.ended || p.encodeEmpty() { // which may have come meanwhile
			return true
		}
	}
	return p.encodeExit()
}

// Written implements rpc.Source.
func (p *process) Written() {
	switch {
	case p.log == nil:
		p.conn.forget(p.exitBytes)
	case p.exitSent:
		p.log.End()
	default:
		p.log.Sent(p.cursor.Seq())
	}
}

// deltaOverhead is more than an output notification needs besides its prefix and
// its bytes.
const deltaOverhead = 128

// encodeDelta adds a piece of output to the batch. It is written straight into the
// frame.
func (p *process) encodeDelta(e outlog.Entry) {
	s, name, at := &p.stdout, "stdout", &p.stdoutAt
	if e.Stream == outlog.Stderr {
		s, name, at = &p.stderr, "stderr", &p.stderrAt
	}
	*at += int64(len(e.Data))
	p.appendDelta(name, e.Data, !s.unlimited && *at >= s.limit)
}

// encodeEmpty tells, once per stream, that there was output of which the client
// wants none.
func (p *process) encodeEmpty() bool {
	for i, s := range []*stream{&p.stdout, &p.stderr} {
		if s.unlimited || s.limit > 0 || p.noDeltas || p.emptied[i] {
			continue
		}
		p.mu.Lock()
		due := s.any
		p.mu.Unlock()
		if due {
			p.emptied[i] = true
			p.appendDelta([]string{"stdout", "stderr"}[i], nil, true)
			return true
		}
	}
	return false
}

func (p *process) appendDelta(stream string, data []byte, capReached bool) {
	size := base64.StdEncoding.EncodedLen(len(data))
	b := p.batch.Open(len(p.prefix) + deltaOverhead + size)
	b = append(b, p.prefix...)
	b = append(b, stream...)
	b = append(b, `","deltaBase64":"`...)
	b = appendBase64(b, data)
	b = append(b, `","capReached":`...)
	b = strconv.AppendBool(b, capReached)
	p.batch.Seal(appendTime(b))
}

// appendTime completes a notification whose parameters are still open.
func appendTime(b []byte) []byte {
	b = append(b, `},"emittedAtMs":`...)
	b = strconv.AppendInt(b, time.Now().UnixMilli(), 10)
	return append(b, '}')
}

// encodeExit gives the handle back and then, if the client wants to know, adds the
// end of the process to the batch: who has heard it may use the handle again.
func (p *process) encodeExit() bool {
	p.exitSent = true
	p.mu.Lock()
	code, drainTimedOut := p.code, p.drainTimedOut
	if p.timedOut {
		code = timeoutCode
	}
	child, stdout, stderr := p.child, p.stdout, p.stderr
	p.stdout.text, p.stderr.text = nil, nil
	p.mu.Unlock()
	p.conn.release(p, child)
	p.exitBytes = int64(len(stdout.text) + len(stderr.text))
	if p.noExit {
		p.conn.forget(p.exitBytes)
		if p.log != nil {
			p.log.End()
		}
		return false
	}
	b := make([]byte, 0, 256+len(p.handle))
	b = append(b, `{"method":"`+wire.NoteExited+`","params":{"processHandle":`...)
	b = wire.AppendString(b, p.handle)
	b = append(b, `,"exitCode":`...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, `,"outputDrainTimedOut":`...)
	b = strconv.AppendBool(b, drainTimedOut)
	if p.exitBytes > exitPiece {
		p.batch.InPieces(exitPieces(b, stdout, stderr))
		return true
	}
	for _, s := range []struct {
		name string
		stream
	}{{"stdout", stdout}, {"stderr", stderr}} {
		b = append(b, `,"`+s.name+`":`...)
		b = wire.AppendString(b, string(s.wanted()))
		b = s.appendEnd(b, s.name)
	}
	p.batch.Whole(appendTime(b))
	return true
}

func (s *stream) appendEnd(b []byte, name string) []byte {
	b = append(b, `,"`+name+`CapReached":`...)
	return strconv.AppendBool(b, s.full)
}

// exitPiece is how much output goes into a piece of a notification: a byte of it may need
// six there.
const exitPiece = rpc.PieceSize / 8

// exitPieces completes the notification of an exit, which begins with b, with much output.
func exitPieces(b []byte, stdout, stderr stream) rpc.Pieces {
	head, names, streams := b, []string{"stdout", "stderr"}, []*stream{&stdout, &stderr}
	var text []byte // what is left of the first of streams
	begun := false
	return func(b []byte) ([]byte, bool, error) {
		b = append(b, head...)
		head = nil
		if !begun {
			begun, text = true, streams[0].wanted()
			b = append(b, `,"`+names[0]+`":"`...)
		}
		cut := cutBefore(text, exitPiece)
		b = appendQuoted(b, text[:cut])
		if text = text[cut:]; len(text) > 0 {
			return b, true, nil
		}
		b = streams[0].appendEnd(append(b, '"'), names[0])
		names, streams, begun = names[1:], streams[1:], false
		if len(streams) > 0 {
			return b, true, nil
		}
		return appendTime(b), false, nil
	}
}

// cutBefore is where a text can be cut so that no more than n bytes are before the cut, and
// no character is cut in two.
func cutBefore(text []byte, n int) int {
	if len(text) <= n {
		return len(text)
	}
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			return i
		}
	}
	return n // these are no characters
}

// appendQuoted appends a text as it is between the quotes of a JSON string.
func appendQuoted(b, text []byte) []byte {
	start := len(b)
	b = wire.AppendString(b, string(text))
	copy(b[start:], b[start+1:len(b)-1])
	return b[:len(b)-2]
}

func appendBase64(b, data []byte) []byte {
	n := base64.StdEncoding.EncodedLen(len(data))
	b = slices.Grow(b, n)
	base64.StdEncoding.Encode(b[len(b):len(b)+n], data)
	return b[:len(b)+n]
}
