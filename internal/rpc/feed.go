package rpc

import (
	"sync"
	"sync/atomic"
)

// A Source has messages for the peer. Its methods are called by the writer of
// the connection, and must not stop their own Feed.
type Source interface {
	// Next adds the next message to the batch, or reports that there is none.
	Next(*Batch) bool

	// Written is called when the stream has taken everything that Next has added.
	Written()
}

// A Feed connects a source to a connection.
type Feed struct {
	writer *writer
	src    Source
	queued atomic.Bool // is in the writer's queue, or about to be
	unsent bool        // is in the feeds of the batch; only used by the writer

	mu      sync.Mutex // held while the source is used
	stopped bool
}

// Feed adds a source of messages. It is asked for messages after each Wake. A
// feed whose first Wake follows an answer sends nothing before that answer.
func (c *Conn) Feed(src Source) *Feed { return &Feed{writer: &c.writer, src: src} }

// Wake tells the writer that the source may have a message. It never waits.
func (f *Feed) Wake() {
	if f.enqueue() {
		f.writer.signal()
	}
}

// WakeNow is Wake for a message that the peer may be waiting for: the caller writes it
// if that can be done without waiting. The caller must hold no lock that the
// source needs.
func (f *Feed) WakeNow() {
	if f.enqueue() {
		f.writer.tryWriteNow(false)
	}
}

// enqueue puts the feed at the end of the queue of feeds that have a message. It reports false if it is
// queued already.
func (f *Feed) enqueue() bool {
	if !f.queued.CompareAndSwap(false, true) {
		return false
	}
	f.writer.queue.add(f)
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
