package rpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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
	if !f.queued.CompareAndSwap(false, true) {
		return
	}
	f.conn.mu.Lock()
	f.conn.ready = append(f.conn.ready, f)
	f.conn.mu.Unlock()
	f.conn.signal()
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
}

// Open begins a message of about size bytes and of at most maxFrame: it is to be
// appended to the returned buffer, which then goes to Seal.
func (b *Batch) Open(size int) []byte {
	b.mark, b.size = len(b.buf), size
	return b.stream.Open(b.buf, size)
}

// Seal completes the message that was begun with Open.
func (b *Batch) Seal(buf []byte) { b.buf = b.stream.Seal(buf, b.mark, b.size) }

var batches = sync.Pool{New: func() any { return &Batch{buf: make([]byte, 0, batchSize)} }}

// maxBatchMemory is the largest buffer that goes back to the pool.
const maxBatchMemory = 2 * batchSize

func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// push queues a message that goes before those of the sources.
func (c *Conn) push(a answer) {
	c.mu.Lock()
	if c.ending != nil {
		c.mu.Unlock()
		c.settle(a)
		return
	}
	c.answers = append(c.answers, a)
	c.mu.Unlock()
	c.signal()
}

// pushOwn queues a message that is no answer, when there is room for it.
func (c *Conn) pushOwn(ctx context.Context, msg []byte) error {
	n := min(int64(len(msg))+messageCost, maxOwnBytes)
	if err := c.own.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	c.push(answer{msg: msg, permit: n})
	return nil
}

// settle gives back what a message held.
func (c *Conn) settle(a answer) {
	switch {
	case !a.request:
		c.own.Release(a.permit)
		return
	case a.permit > 0:
		c.permits.Release(a.permit)
	}
	c.requests.leave(a.held)
}

// writeLoop is the only goroutine that writes to the stream.
func (c *Conn) writeLoop() {
	defer c.dropQueued()
	for range c.wake {
		for {
			b := batches.Get().(*Batch)
			b.stream = c.stream
			ended := c.fill(b)
			idle := len(b.buf) == 0 && len(b.answers) == 0
			err := c.send(b)
			c.recycle(b)
			if err != nil {
				c.Close(err)
				c.stream.Close()
				return
			}
			if ended {
				c.leave()
				return
			}
			if idle {
				break
			}
		}
	}
}

// fill takes what is to be written next and reports whether it is the last.
func (c *Conn) fill(b *Batch) (ended bool) {
	c.mu.Lock()
	pong, pongDue, ping := c.pong, c.pongDue, c.ping
	c.pong, c.pongDue, c.ping = nil, false, false
	c.takeAnswersLocked(b)
	ending := c.ending
	ended = ending != nil && len(c.answers) == 0 && b.large == nil
	c.mu.Unlock()

	if pongDue {
		b.buf = c.stream.Control(b.buf, Pong, pong)
	}
	if ping {
		b.buf = c.stream.Control(b.buf, Ping, nil)
	}
	for _, a := range b.answers {
		if len(a.msg) <= largeMessage {
			b.Seal(append(b.Open(len(a.msg)), a.msg...))
		}
	}
	if e, ok := errors.AsType[*CloseError](ending); ok && ended {
		b.buf = c.stream.Control(b.buf, Goodbye, goodbye(e))
	}
	for ending == nil && b.large == nil && len(b.buf) < batchSize/2 {
		f := c.nextReady()
		if f == nil {
			break
		}
		if f.next(b) {
			if !f.unsent {
				f.unsent = true
				b.feeds = append(b.feeds, f)
			}
			f.Wake() // to the end of the row
		}
	}
	return ended
}

// takeAnswersLocked moves answers to the batch, as many as make a good write. A
// large one comes alone.
func (c *Conn) takeAnswersLocked(b *Batch) {
	size, taken := 0, 0
	for _, a := range c.answers {
		if size >= batchSize {
			break
		}
		if len(a.msg) > largeMessage {
			if taken == 0 {
				b.large = a.msg
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

// send writes a batch and tells those concerned.
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
	for _, f := range b.feeds {
		f.unsent = false
		f.written()
	}
	for _, a := range b.answers {
		if a.written != nil {
			a.written()
		}
	}
	return nil
}

// recycle gives back what the batch held, whether it was written or not.
func (c *Conn) recycle(b *Batch) {
	for _, a := range b.answers {
		c.settle(a)
	}
	clear(b.answers)
	clear(b.feeds)
	b.answers, b.feeds, b.buf, b.large, b.stream = b.answers[:0], b.feeds[:0], b.buf[:0], nil, nil
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

// dropQueued gives back what was never written. As the connection has ended,
// nothing is queued any more.
func (c *Conn) dropQueued() {
	c.mu.Lock()
	answers := c.answers
	c.answers, c.ready = nil, nil
	c.mu.Unlock()
	for _, a := range answers {
		c.settle(a)
	}
}
