package rpc

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/wake"
)

// A writer sends the queued messages. One goroutine at a time writes: the goroutine that runs the writer, or one that
// queues a small message while no other is writing.
type writer struct {
	stream      Stream
	allowance   *allowance
	liveness    *liveness
	hurry       func()                   // see hurrier; may be nil
	lastMessage func(*CloseError) []byte // see Config; may be nil
	close       func(error)              // ends the connection
	wake        wake.Signal              // there is something to write
	queue       sendQueue

	writes atomic.Uint64 // that have begun or returned: odd while the writing goroutine waits for the stream

	out    sync.Mutex // held by the goroutine that writes
	rest   *Batch     // the part of a batch that tryWriteNow could not write; it is written next
	inline inlineWrites
}

func (w *writer) init(stream Stream, allowance *allowance, liveness *liveness, lastMessage func(*CloseError) []byte, end func(error)) {
	w.stream, w.allowance, w.liveness, w.lastMessage, w.close = stream, allowance, liveness, lastMessage, end
	w.wake = wake.New()
	if h, ok := stream.(hurrier); ok {
		w.hurry = h.Hurry
	}
}

// signal wakes the goroutine that runs the writer.
func (w *writer) signal() { w.wake.Send() }

// send queues a message, and writes it if that can be done without waiting.
func (w *writer) send(m outgoing) {
	w.push(m)
	w.tryWriteNow(false)
}

// push queues a message, which goes before those of the sources. The caller then
// calls tryWriteNow or signal.
func (w *writer) push(m outgoing) {
	if !w.queue.push(m) {
		w.drop(m)
	}
	if w.hurry != nil {
		w.hurry()
	}
}

// drop gives up a message that the writer did not even try to write.
func (w *writer) drop(m outgoing) {
	if m.dropped != nil {
		m.dropped()
	}
	w.settle(&m)
}

// settle gives back the room that a message held.
func (w *writer) settle(m *outgoing) {
	w.allowance.release(m.claim)
	if m.settled != nil {
		m.settled()
	}
}

// stopAwaitingAnswers lets a dismissed connection end without further answers.
func (w *writer) stopAwaitingAnswers() {
	w.queue.stopAwaitingAnswers()
	w.signal()
}

// run writes the queue, and waits for the stream as long as it takes, until the connection has ended. It reports
// whether the peer was sent everything, including the close frame.
func (w *writer) run() (complete bool) {
	for range w.wake {
		ended, complete := w.writeQueued()
		if ended {
			return complete
		}
	}
	return false
}

// writeQueued writes until nothing is left to write, or the connection has ended.
func (w *writer) writeQueued() (ended, complete bool) {
	w.out.Lock()
	defer w.out.Unlock()
	for {
		b := w.rest
		w.rest = nil
		if b == nil {
			b = newBatch(w.stream)
			w.fill(b, batchSize/2)
		}
		idle, last := len(b.buf) == 0 && len(b.outgoing) == 0, b.last
		err := w.write(b)
		w.recycle(b)
		switch {
		case errors.Is(err, errCutShort):
			return true, true
		case err != nil:
			w.close(err)
			return true, false
		case last:
			return true, true
		case idle:
			return false, false
		}
	}
}

const (
	// inlineSize is how many bytes tryWriteNow collects at most.
	inlineSize = 16 << 10

	// inlinePerTick and inlineTick limit how often tryWriteNow writes: when
	// messages come in quick succession, it is cheaper to collect them.
	inlinePerTick = 8
	inlineTick    = time.Millisecond
)

// inlineWrites counts the writes of tryWriteNow in the current tick.
type inlineWrites struct {
	tick  time.Time
	count int
}

func (i *inlineWrites) allowed() bool {
	if now := time.Now(); now.Sub(i.tick) > inlineTick {
		i.tick, i.count = now, 0
	}
	i.count++
	return i.count <= inlinePerTick
}

// tryWriteNow writes the queue on the calling goroutine if no other goroutine is writing, few bytes are queued and the
// stream takes them without waiting. Everything else is left to the goroutine that runs the writer. So a small message
// costs no switch between goroutines. With force, the limit inlinePerTick does not apply: the message is all that the
// peer waits for, so there is nothing to collect it with.
func (w *writer) tryWriteNow(force bool) {
	if !w.out.TryLock() {
		w.signal() // the goroutine that writes may have read the queue already
		return
	}
	defer w.out.Unlock()
	if w.rest != nil || !force && !w.inline.allowed() || !w.queue.isSmall() {
		w.signal()
		return
	}
	b := newBatch(w.stream)
	w.fill(b, inlineSize)
	n, err := w.stream.TryWrite(b.buf)
	if err != nil || n < len(b.buf) || b.whole() || b.last {
		b.buf = append(b.buf[:0], b.buf[n:]...)
		w.rest = b
		w.signal()
		return
	}
	reportWritten(b)
	w.recycle(b)
	if !w.queue.isEmpty() {
		w.signal()
	}
}

// fill takes the messages that are written next; those of the sources until there
// are enough bytes.
func (w *writer) fill(b *Batch, enough int) {
	due, ending := w.queue.take(b, &w.allowance.requests)
	b.buf = w.appendControl(b.buf, due)
	for i := range b.outgoing {
		if m := &b.outgoing[i]; !m.isLarge() {
			b.Seal(append(b.Open(len(m.msg)), m.msg...))
		}
	}
	if e, ok := errors.AsType[*CloseError](ending); ok && b.last {
		w.appendLastMessage(b, e)
		b.buf = w.stream.Control(b.buf, CloseFrame, ClosePayload(e))
	}
	for ending == nil && !b.whole() && len(b.buf) < enough {
		f := w.queue.nextFeed()
		if f == nil {
			break
		}
		if f.next(b) {
			if !f.unsent {
				f.unsent = true
				b.feeds = append(b.feeds, f)
			}
			f.enqueue() // at the end
		}
	}
}

// appendLastMessage adds the last message of the connection, if there is one.
func (w *writer) appendLastMessage(b *Batch, why *CloseError) {
	if w.lastMessage == nil {
		return
	}
	if msg := w.lastMessage(why); msg != nil {
		b.Seal(append(b.Open(len(msg)), msg...))
	}
}

func (w *writer) appendControl(b []byte, due controlFrames) []byte {
	if due.pongDue {
		b = w.stream.Control(b, Pong, due.pong)
	}
	if due.pingDue {
		b = w.stream.Control(b, Ping, w.liveness.pingPayload(due.pings))
	}
	return b
}

// write writes a batch.
func (w *writer) write(b *Batch) error {
	w.writes.Add(1)
	defer w.writes.Add(1)
	if len(b.buf) > 0 {
		if err := w.stream.Write(b.buf); err != nil {
			return err
		}
	}
	if b.large != nil {
		if err := w.stream.WriteMessage(b.large); err != nil {
			return err
		}
	}
	if b.pieces != nil {
		if err := w.writePieces(b.pieces); err != nil {
			return err
		}
	}
	reportWritten(b)
	return nil
}

// reportWritten calls the written callbacks of a batch.
func reportWritten(b *Batch) {
	for _, f := range b.feeds {
		f.unsent = false
		f.written()
	}
	for i := range b.outgoing {
		if written := b.outgoing[i].written; written != nil {
			written()
		}
	}
}

// recycle gives back the room that the batch held, whether it was written or not.
func (w *writer) recycle(b *Batch) {
	for i := range b.outgoing {
		w.settle(&b.outgoing[i])
	}
	b.recycle()
}

// dropRest gives back what tryWriteNow could not write, if the writer has ended since. The
// connection has ended, so no other call can leave a rest.
func (w *writer) dropRest() {
	w.out.Lock()
	defer w.out.Unlock()
	if b := w.rest; b != nil {
		w.rest = nil
		w.recycle(b)
	}
}

// dropQueued gives back the messages that were never written. The connection has
// ended, so no more messages are queued.
func (w *writer) dropQueued() {
	for _, m := range w.queue.clear() {
		w.drop(m)
	}
}
