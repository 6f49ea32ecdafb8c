package rpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// batchSize is how much is collected for one write. The memory is only held
	// while there is something to write.
	batchSize = 256 << 10

	// largeMessage is the size above which a message is written from where it
	// is instead of being copied into a batch.
	largeMessage = 64 << 10
)

// A Source has messages for the peer. Its methods are called by the writer of
// the connection, and must not stop their own Feed.
type Source interface {
	// Next adds the next message to the batch, or reports that there is none.
	Next(*Batch) bool

	// Written is called when the stream has taken all that Next has added.
	Written()
}

// A Feed connects a source to a connection.
type Feed struct {
	conn   *Conn
	src    Source
	queued atomic.Bool // is in conn.ready, or about to be
	unsent bool        // is in the feeds of the batch; only used by the writer

	mu      sync.Mutex // held while the source is used
	stopped bool
}

// Feed adds a source of messages. It is asked for messages after each Wake. A
// feed whose first Wake follows an answer sends nothing before that answer.
func (c *Conn) Feed(src Source) *Feed { return &Feed{conn: c, src: src} }

// Wake tells the writer that the source may have a message. It never waits.
func (f *Feed) Wake() {
	if f.enqueue() {
		f.conn.signal()
	}
}

// WakeNow is Wake for a message that somebody waits for: it is sent on the spot
// if that can be done without waiting. The caller must hold no lock that the
// source needs.
func (f *Feed) WakeNow() {
	if f.enqueue() {
		f.conn.flush(false)
	}
}

// enqueue puts the feed into the row of those that have something.
func (f *Feed) enqueue() bool {
	if !f.queued.CompareAndSwap(false, true) {
		return false
	}
	f.conn.mu.Lock()
	f.conn.ready = append(f.conn.ready, f)
	f.conn.mu.Unlock()
	return true
}

// Stop ends the use of the source: after it none of its methods is called.
func (f *Feed) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

func (f *Feed) next(b *Batch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.stopped && f.src.Next(b)
}

func (f *Feed) written() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stopped {
		f.src.Written()
	}
}

// A Batch collects framed messages for one write.
type Batch struct {
	stream     Stream
	buf        []byte
	mark, size int
	feeds      []*Feed  // whose messages are in it
	answers    []answer // of which it consists besides
	large      []byte   // the last answer, if that goes behind buf on its own
	pieces     Pieces   // the same, if it is made while it is written
	last       bool     // nothing comes after it
}

// requests is how many requests the batch answers.
func (b *Batch) requests() (n int) {
	for _, a := range b.answers {
		if a.request {
			n++
		}
	}
	return n
}

// Open begins a message of about size bytes and of at most maxFrame: it is to be
// appended to the returned buffer, which then goes to Seal.
func (b *Batch) Open(size int) []byte {
	b.mark, b.size = len(b.buf), size
	return b.stream.Open(b.buf, size)
}

// Seal completes the message that was begun with Open.
func (b *Batch) Seal(buf []byte) { b.buf = b.stream.Seal(buf, b.mark, b.size) }

// Whole adds a message of any size. A large one is written from where it is, and
// may be changed by that.
func (b *Batch) Whole(msg []byte) {
	if len(msg) > largeMessage {
		b.large = msg // which ends the batch
		return
	}
	b.Seal(append(b.Open(len(msg)), msg...))
}

// InPieces adds a message that is made while it is written. It ends the batch.
func (b *Batch) InPieces(pieces Pieces) { b.pieces = pieces }

// whole reports whether the batch ends with a message that goes on its own.
func (b *Batch) whole() bool { return b.large != nil || b.pieces != nil }

var batches = sync.Pool{New: func() any { return &Batch{buf: make([]byte, 0, batchSize)} }}

// maxBatchMemory is the largest buffer that goes back to the pool.
const maxBatchMemory = 2 * batchSize

func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// push queues a message that goes before those of the sources. It is followed by
// flush or signal.
func (c *Conn) push(a answer) {
	c.mu.Lock()
	if c.ending != nil && !(c.owing && a.request) {
		c.mu.Unlock()
		c.drop(a)
		return
	}
	c.answers = append(c.answers, a)
	c.mu.Unlock()
}

// pushOwn queues a message that is no answer, when there is room for it.
func (c *Conn) pushOwn(ctx context.Context, a answer) error {
	a.own = c.ownCost(len(a.msg))
	if err := c.own.Acquire(ctx, a.own); err != nil {
		return context.Cause(ctx)
	}
	c.push(a)
	c.flush(false)
	return nil
}

// drop gives up a message that was not even tried to be written.
func (c *Conn) drop(a answer) {
	if a.dropped != nil {
		a.dropped()
	}
	c.settle(a)
}

// settle gives back what a message held.
func (c *Conn) settle(a answer) {
	if a.settled != nil {
		defer a.settled()
	}
	if !a.request {
		c.own.Release(a.own)
		return
	}
	if a.permit != (permit{}) {
		c.giveBack(a.permit)
	}
	if a.charge > 0 {
		c.memory.in.Release(a.charge)
	}
	c.requests.leave(a.held, a.free)
}

// writeLoop writes what is ready, and waits for the stream as long as it takes.
func (c *Conn) writeLoop() {
	defer c.dropQueued()
	for range c.wake {
		if ended := c.writeReady(); ended {
			return
		}
	}
}

// writeReady writes until nothing is left to write. It reports whether the
// connection has ended.
func (c *Conn) writeReady() (ended bool) {
	c.out.Lock()
	defer c.out.Unlock()
	for {
		b := c.rest
		c.rest = nil
		if b == nil {
			b = c.newBatch()
			c.fill(b, batchSize/2)
		}
		idle, last := len(b.buf) == 0 && len(b.answers) == 0, b.last
		err := c.send(b)
		c.recycle(b)
		switch {
		case errors.Is(err, errCutShort):
			c.leave()
			return true
		case err != nil:
			c.Close(err)
			c.stream.Close()
			return true
		case last:
			c.leave()
			return true
		case idle:
			return false
		}
	}
}

const (
	// flushSize is how much a flush collects at most.
	flushSize = 16 << 10

	// flushesPerTick and flushTick limit how often a connection is flushed: when
	// messages come thick and fast it is better to collect them.
	flushesPerTick = 8
	flushTick      = time.Millisecond
)

// eager counts the flushes of the present tick.
type eager struct {
	tick    time.Time
	flushes int
}

func (e *eager) allowed() bool {
	if now := time.Now(); now.Sub(e.tick) > flushTick {
		e.tick, e.flushes = now, 0
	}
	e.flushes++
	return e.flushes <= flushesPerTick
}

// flush writes what is ready on the spot, if nobody is writing, it is little and
// the stream takes it without waiting. All else is left to the writer. It saves
// a small message the way through another goroutine. An urgent one is that for
// which there is nothing to be collected with: it does not count.
func (c *Conn) flush(urgent bool) {
	if !c.out.TryLock() {
		c.signal() // who writes may have looked already
		return
	}
	defer c.out.Unlock()
	if c.rest != nil || !urgent && !c.eager.allowed() || !c.flushable() {
		c.signal()
		return
	}
	b := c.newBatch()
	c.fill(b, flushSize)
	n, err := c.stream.TryWrite(b.buf)
	if err != nil || n < len(b.buf) || b.whole() || b.last {
		b.buf = append(b.buf[:0], b.buf[n:]...)
		c.rest = b
		c.signal()
		return
	}
	c.tell(b)
	c.recycle(b)
	if c.anyReady() {
		c.signal()
	}
}

// flushable reports whether what is queued is little.
func (c *Conn) flushable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := 0
	for _, a := range c.answers {
		size += len(a.msg)
		if a.pieces != nil {
			return false
		}
	}
	return c.ending == nil && size <= flushSize
}

func (c *Conn) anyReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending != nil || len(c.answers) > 0 || len(c.ready) > 0
}

func (c *Conn) newBatch() *Batch {
	b := batches.Get().(*Batch)
	b.stream = c.stream
	return b
}

// fill takes what is to be written next, from the sources until there is enough.
func (c *Conn) fill(b *Batch, enough int) {
	c.mu.Lock()
	due := c.takeControlLocked()
	c.takeAnswersLocked(b)
	ending := c.ending
	b.last = ending != nil && len(c.answers) == 0 && !b.whole() && !(c.owing && c.requests.more(b.requests()))
	c.mu.Unlock()
	b.buf = c.appendControl(b.buf, due)
	for _, a := range b.answers {
		if len(a.msg) <= largeMessage && a.pieces == nil {
			b.Seal(append(b.Open(len(a.msg)), a.msg...))
		}
	}
	if e, ok := errors.AsType[*CloseError](ending); ok && b.last {
		c.appendFarewell(b, e)
		b.buf = c.stream.Control(b.buf, Goodbye, goodbye(e))
	}
	for ending == nil && !b.whole() && len(b.buf) < enough {
		f := c.nextReady()
		if f == nil {
			break
		}
		if f.next(b) {
			if !f.unsent {
				f.unsent = true
				b.feeds = append(b.feeds, f)
			}
			f.enqueue() // at the end of the row
		}
	}
}

// appendFarewell adds the last message of the connection, if there is one.
func (c *Conn) appendFarewell(b *Batch, why *CloseError) {
	if c.last == nil {
		return
	}
	if msg := c.last(why); msg != nil {
		b.Seal(append(b.Open(len(msg)), msg...))
	}
}

// controlDue are the control frames that are to be written.
type controlDue struct {
	pong          []byte
	pongDue, ping bool
	number        uint64 // of the ping
}

func (c *Conn) takeControlLocked() controlDue {
	due := controlDue{c.pong, c.pongDue, c.ping, c.pings}
	c.pong, c.pongDue, c.ping = nil, false, false
	return due
}

func (c *Conn) appendControl(b []byte, due controlDue) []byte {
	if due.pongDue {
		b = c.stream.Control(b, Pong, due.pong)
	}
	if due.ping {
		b = c.stream.Control(b, Ping, c.pingPayload(due.number))
	}
	return b
}

// takeAnswersLocked moves answers to the batch, as many as make a good write. A
// large one comes alone.
func (c *Conn) takeAnswersLocked(b *Batch) {
	size, taken := 0, 0
	for _, a := range c.answers {
		if size >= batchSize {
			break
		}
		if len(a.msg) > largeMessage || a.pieces != nil {
			if taken == 0 {
				b.pieces = a.pieces
				if a.pieces == nil {
					b.large = a.msg
				}
				taken = 1
			}
			break
		}
		size += len(a.msg)
		taken++
	}
	b.answers = append(b.answers, c.answers[:taken]...)
	c.answers = shift(c.answers, taken)
}

// keepQueued is the room for answers and sources that a quiet connection keeps.
const keepQueued = 64

// shift removes the first n of a queue.
func shift[T any](queue []T, n int) []T {
	queue = slices.Delete(queue, 0, n)
	if len(queue) == 0 && cap(queue) > keepQueued {
		return nil
	}
	return queue
}

// nextReady takes the first source of the row, unless there is an answer, which
// goes first. From here on the source can enter the row again, so that nothing
// it gets later is missed.
func (c *Conn) nextReady() *Feed {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 || len(c.answers) > 0 {
		return nil
	}
	f := c.ready[0]
	c.ready = shift(c.ready, 1)
	f.queued.Store(false)
	return f
}

// send writes a batch.
func (c *Conn) send(b *Batch) error {
	if len(b.buf) > 0 {
		if err := c.stream.Write(b.buf); err != nil {
			return err
		}
	}
	if b.large != nil {
		if err := c.stream.WriteMessage(b.large); err != nil {
			return err
		}
	}
	if b.pieces != nil {
		if err := c.writePieces(b.pieces); err != nil {
			return err
		}
	}
	c.tell(b)
	return nil
}

// tell tells the senders of a batch that it was written.
func (c *Conn) tell(b *Batch) {
	for _, f := range b.feeds {
		f.unsent = false
		f.written()
	}
	for _, a := range b.answers {
		if a.written != nil {
			a.written()
		}
	}
}

// recycle gives back what the batch held, whether it was written or not.
func (c *Conn) recycle(b *Batch) {
	for _, a := range b.answers {
		c.settle(a)
	}
	clear(b.answers)
	clear(b.feeds)
	b.answers, b.feeds, b.buf, b.large, b.pieces, b.last, b.stream = b.answers[:0], b.feeds[:0], b.buf[:0], nil, nil, false, nil
	if cap(b.buf) <= maxBatchMemory {
		batches.Put(b)
	}
}

// leave ends the stream when the last word is written. A peer that was told why
// gets some time to read it.
func (c *Conn) leave() {
	e, ok := errors.AsType[*CloseError](c.reason())
	if !ok || e.byPeer {
		c.stream.Close()
		return
	}
	c.mu.Lock()
	c.closer.Reset(c.linger)
	c.mu.Unlock()
	c.stream.CloseWrite()
}

// dropRest gives back what a flush could not write, if the writer has ended since. As the
// connection has ended, no other flush can leave anything.
func (c *Conn) dropRest() {
	c.out.Lock()
	defer c.out.Unlock()
	if b := c.rest; b != nil {
		c.rest = nil
		c.recycle(b)
	}
}

// dropQueued gives back what was never written. As the connection has ended,
// nothing is queued any more.
func (c *Conn) dropQueued() {
	c.mu.Lock()
	answers := c.answers
	c.answers, c.ready, c.owing = nil, nil, false
	c.mu.Unlock()
	for _, a := range answers {
		c.drop(a)
	}
}
