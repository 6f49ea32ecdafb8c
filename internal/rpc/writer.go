package rpc

import (
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
// the connection.
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

	mu      sync.Mutex // held while the source is used
	stopped bool
}

// Feed adds a source of messages. It is asked for messages after each Wake.
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
	feeds      []*Feed // whose messages are in it
	answers    []answer
}

// Open begins a message of about size bytes: it is to be appended to the
// returned buffer, which then goes to Seal.
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

// settle gives back what an answer held.
func (c *Conn) settle(a answer) {
	if a.request >= 0 {
		c.requests.leave(a.request)
	}
	if a.permit > 0 {
		c.permits.Release(a.permit)
	}
}

// writeLoop is the only goroutine that writes to the stream.
func (c *Conn) writeLoop() {
	defer c.stream.Close()
	defer c.dropQueued()
	for {
		<-c.wake
		for {
			b := batches.Get().(*Batch)
			b.stream = c.stream
			ended := c.fill(b)
			idle := len(b.buf) == 0 && len(b.answers) == 0
			err := c.send(b)
			c.recycle(b)
			if ended {
				return
			}
			if err != nil {
				c.Close(err)
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
	if c.pong != nil {
		b.buf = c.stream.Control(b.buf, Pong, c.pong)
		c.pong = nil
	}
	if c.ping {
		b.buf = c.stream.Control(b.buf, Ping, nil)
		c.ping = false
	}
	taken := 0
	for _, a := range c.answers {
		if len(b.buf) >= batchSize || len(a.msg) > largeMessage && len(b.answers) > 0 {
			break
		}
		b.answers = append(b.answers, a)
		taken++
		if len(a.msg) > largeMessage { // goes alone, behind what is in the batch
			break
		}
		buf := b.Open(len(a.msg))
		b.Seal(append(buf, a.msg...))
	}
	c.answers = slices.Delete(c.answers, 0, taken)
	more := len(c.answers) > 0 || taken > 0 && len(b.answers[taken-1].msg) > largeMessage
	ending := c.ending
	c.mu.Unlock()

	if ending != nil {
		if more {
			return false
		}
		if e, ok := errors.AsType[*CloseError](ending); ok {
			b.buf = c.stream.Control(b.buf, Goodbye, goodbye(e))
		}
		return true
	}
	for !more && len(b.buf) < batchSize/2 {
		f := c.nextReady()
		if f == nil {
			break
		}
		if f.next(b) {
			b.feeds = append(b.feeds, f)
			f.Wake() // to the end of the row
		}
	}
	return false
}

// nextReady takes the first source of the row. From here on the source can
// enter the row again, so that nothing it gets later is missed.
func (c *Conn) nextReady() *Feed {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 {
		return nil
	}
	f := c.ready[0]
	c.ready = slices.Delete(c.ready, 0, 1)
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
	if n := len(b.answers); n > 0 && len(b.answers[n-1].msg) > largeMessage {
		if err := c.stream.WriteMessage(b.answers[n-1].msg); err != nil {
			return err
		}
	}
	for _, f := range b.feeds {
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
	b.answers, b.feeds, b.buf, b.stream = b.answers[:0], b.feeds[:0], b.buf[:0], nil
	if cap(b.buf) <= maxBatchMemory {
		batches.Put(b)
	}
}

// dropQueued gives back what was never written.
func (c *Conn) dropQueued() {
	c.mu.Lock()
	answers := c.answers
	c.answers, c.ready = nil, nil
	c.mu.Unlock()
	for _, a := range answers {
		c.settle(a)
	}
}
