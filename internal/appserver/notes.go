package appserver

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/segmentio/asm/base64"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// notes turn the output of a process and its exit into notifications. They are a
// source of the connection's writer.
type notes struct {
	process  *process
	noDeltas bool // the client has opted out of output
	noExit   bool // the client has opted out of the exit
	feed     *rpc.Feed
	open     atomic.Bool // the start was answered: notifications may follow

	// Only the writer uses these.
	progress  progress
	cursor    *outlog.Cursor // in the log of the process; nil: it has none
	visit     func(outlog.Entry)
	prefix    []byte // beginning of an output notification, up to the stream
	batch     *rpc.Batch
	stdoutAt  int64 // bytes sent
	stderrAt  int64
	emptied   [2]bool // a stream with a cap of 0 was reported
	exitBytes int64   // bytes of collected output in the exit notification
}

// A progress of notes only moves forward.
type progress uint8

const (
	following progress = iota // output may come
	drained                   // the log has been read to its end
	finished                  // the exit was sent, or is not wanted
)

func (n *notes) init(p *process, by *client) {
	n.process, n.feed = p, p.conn.rpc.Feed(n)
	n.noDeltas, n.noExit = by.optedOut[wire.NoteOutputDelta], by.optedOut[wire.NoteExited]
	if p.log == nil {
		return
	}
	n.cursor = p.log.Cursor(0)
	n.prefix = append(n.prefix, `{"method":"`+wire.NoteOutputDelta+`","params":{"processHandle":`...)
	n.prefix = wire.AppendString(n.prefix, p.handle)
	n.prefix = append(n.prefix, `,"stream":"`...)
	n.visit = func(e outlog.Entry) {
		switch e.Kind {
		case outlog.Output:
			n.encodeDelta(e)
		case outlog.Closed:
			n.progress = drained
		}
	}
}

// begin lets notifications follow: the start is answered, so the client knows the process.
func (n *notes) begin() {
	if log := n.process.log; log != nil {
		log.OnAppend(func(urgent bool) { // until the log ends, with the process
			if urgent {
				n.feed.WakeNow()
			} else {
				n.feed.Wake()
			}
		})
	}
	n.open.Store(true)
	n.feed.Wake()
}

// wake makes the writer ask for notifications, if they may be sent already.
func (n *notes) wake() {
	if n.open.Load() {
		n.feed.Wake()
	}
}

// Next implements rpc.Source.
func (n *notes) Next(b *rpc.Batch) bool {
	if n.progress == finished {
		return false
	}
	n.batch = b
	defer func() { n.batch = nil }()
	if p := n.process; p.log == nil {
		p.mu.Lock()
		isOver := p.state == over
		p.mu.Unlock()
		return isOver && n.encodeExit()
	}
	if n.encodeEmpty() {
		return true
	}
	if n.progress == following {
		if err := n.cursor.Next(n.visit); err != nil {
			return false
		}
		if n.progress == following || n.encodeEmpty() { // its output may have arrived meanwhile
			return true
		}
	}
	return n.encodeExit()
}

// Written implements rpc.Source.
func (n *notes) Written() {
	switch log := n.process.log; {
	case log == nil:
		n.process.conn.forget(n.exitBytes)
	case n.progress == finished:
		log.End()
	default:
		log.Sent(n.cursor.Seq())
	}
}

// deltaOverhead is an upper bound for the size of an output notification without
// its prefix and its bytes.
const deltaOverhead = 128

// encodeDelta adds a piece of output to the batch. It is encoded directly into the
// frame.
func (n *notes) encodeDelta(e outlog.Entry) {
	s, name, at := &n.process.stdout, "stdout", &n.stdoutAt
	if e.Stream == outlog.Stderr {
		s, name, at = &n.process.stderr, "stderr", &n.stderrAt
	}
	*at += int64(len(e.Data))
	n.appendDelta(name, e.Data, !s.unlimited && *at >= s.limit)
}

// encodeEmpty reports, once per stream, that there was output although the client's
// cap is 0.
func (n *notes) encodeEmpty() bool {
	for i, s := range []*stream{&n.process.stdout, &n.process.stderr} {
		if s.unlimited || s.limit > 0 || n.noDeltas || n.emptied[i] {
			continue
		}
		n.process.mu.Lock()
		due := s.any
		n.process.mu.Unlock()
		if due {
			n.emptied[i] = true
			n.appendDelta([]string{"stdout", "stderr"}[i], nil, true)
			return true
		}
	}
	return false
}

func (n *notes) appendDelta(stream string, data []byte, capReached bool) {
	size := base64.StdEncoding.EncodedLen(len(data))
	b := n.batch.Open(len(n.prefix) + deltaOverhead + size)
	b = append(b, n.prefix...)
	b = append(b, stream...)
	b = append(b, `","deltaBase64":"`...)
	b = appendBase64(b, data)
	b = append(b, `","capReached":`...)
	b = strconv.AppendBool(b, capReached)
	n.batch.Seal(appendTime(b))
}

// appendTime completes a notification whose parameters are still open.
func appendTime(b []byte) []byte {
	b = append(b, `},"emittedAtMs":`...)
	b = strconv.AppendInt(b, time.Now().UnixMilli(), 10)
	return append(b, '}')
}

// encodeExit frees the handle and then, if the client wants it, adds the exit to
// the batch. In this order, because a client that has received the exit may use the
// handle again.
func (n *notes) encodeExit() bool {
	n.progress = finished
	p := n.process
	p.mu.Lock()
	code, drainTimedOut := p.code, p.drain.timedOut
	if p.time.passed {
		code = timeoutCode
	}
	child, stdout, stderr := p.child, p.stdout, p.stderr
	p.stdout.text, p.stderr.text = nil, nil
	p.mu.Unlock()
	p.conn.release(p, child)
	n.exitBytes = int64(len(stdout.text) + len(stderr.text))
	if n.noExit {
		p.conn.forget(n.exitBytes)
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
	if n.exitBytes > exitPiece {
		n.batch.InPieces(exitPieces(b, stdout, stderr))
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
	n.batch.Whole(appendTime(b))
	return true
}

func (s *stream) appendEnd(b []byte, name string) []byte {
	b = append(b, `,"`+name+`CapReached":`...)
	return strconv.AppendBool(b, s.full)
}

// exitPiece is how many bytes of output go into one piece of a notification: one byte may
// need six there.
const exitPiece = rpc.PieceSize / 8

// exitPieces completes the exit notification of a process with much output. b is its
// beginning.
func exitPieces(b []byte, stdout, stderr stream) rpc.Pieces {
	head, names, streams := b, []string{"stdout", "stderr"}, []*stream{&stdout, &stderr}
	var text []byte // the unsent rest of the first of streams
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

// cutBefore is where to cut a text so that at most n bytes come before the cut, and no
// character is cut in two.
func cutBefore(text []byte, n int) int {
	if len(text) <= n {
		return len(text)
	}
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			return i
		}
	}
	return n // the bytes are not valid UTF-8
}

// appendQuoted appends a text as it is written between the quotes of a JSON string.
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
