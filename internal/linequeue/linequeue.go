// Package linequeue writes the lines of a log for callers that must not wait.
//
// It promises that adding a line never waits for the target, however long a write takes or fails: a goroutine writes the lines in
// order. The lines that wait for it have a limit. Lines above the limit are dropped and counted, and the next line that there is
// room for comes after one that says how many are missing. The target gets only whole lines.
package linequeue

import (
	"context"
	"io"
	"sync"
	"time"
)

// Config describes a Queue.
type Config struct {
	Target io.Writer

	// MaxLines and MaxBytes limit the lines that wait.
	MaxLines, MaxBytes int

	// Gap returns the line that says how many lines are missing.
	Gap func(count uint64) []byte

	// Failed is called when the first of several writes has failed, and Recovered when a write succeeds after that, with the number of
	// lines that were dropped in all. They are called by the goroutine that writes. May be nil.
	Failed    func(error)
	Recovered func(dropped uint64)
}

// A Queue has the lines that are not written yet. Its goroutine begins with the first line.
type Queue struct {
	config Config
	ended  chan struct{} // closed when the goroutine has ended
	more   chan struct{} // has an element if there may be lines; closed with the queue

	mu      sync.Mutex // guards the fields below
	running bool       // the goroutine has begun
	lines   [][]byte
	bytes   int
	dropped uint64 // in all
	gap     uint64 // dropped since the last line that was queued
	failing error  // of the last write
	closed  bool
}

// RetryTime is how long the queue waits after a failed write before it tries again.
const RetryTime = time.Second

// maxBatch bounds what is written at once, unless one line is longer.
const maxBatch = 64 << 10

// New returns an empty queue. Close it.
func New(c Config) *Queue {
	return &Queue{config: c, ended: make(chan struct{}), more: make(chan struct{}, 1)}
}

// Add queues a line, which ends with a line feed and belongs to the queue from now on. After Close it is dropped.
func (q *Queue) Add(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.lines) >= q.config.MaxLines || q.bytes+len(line) > q.config.MaxBytes {
		q.dropped++
		q.gap++
		return
	}
	if !q.running {
		q.running = true
		go q.write() // Close waits for it
	}
	if q.gap > 0 {
		q.addLocked(q.config.Gap(q.gap))
		q.gap = 0
	}
	q.addLocked(line)
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *Queue) addLocked(line []byte) { q.lines, q.bytes = append(q.lines, line), q.bytes+len(line) }

// Dropped is how many lines were dropped.
func (q *Queue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Waiting is how many lines wait, with their bytes, and the error of the last write.
func (q *Queue) Waiting() (lines, bytes int, failing error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines), q.bytes, q.failing
}

// Close writes the lines that wait. It gives up if a write fails, or if ctx ends while the target does not return from a write; only
// then the goroutine goes on. It may be called again.
func (q *Queue) Close(ctx context.Context) {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.more)
	}
	running := q.running
	q.mu.Unlock()
	if !running {
		return
	}
	select {
	case <-q.ended:
	case <-ctx.Done():
	}
}

// write writes the lines until the queue is closed, and all are written or cannot be.
func (q *Queue) write() {
	defer close(q.ended)
	for range q.more {
		for q.writeNext() {
		}
	}
	for q.writeNext() {
	}
}

// writeNext writes the lines that wait, and reports whether it should be called again at once.
func (q *Queue) writeNext() bool {
	q.mu.Lock()
	lines := q.lines
	q.mu.Unlock()
	if len(lines) == 0 {
		return false
	}
	var batch []byte
	n := 0
	for n < len(lines) && (n == 0 || len(batch)+len(lines[n]) <= maxBatch) {
		batch = append(batch, lines[n]...)
		n++
	}
	_, err := q.config.Target.Write(batch)
	q.wrote(n, len(batch), err)
	if err != nil {
		return q.pause()
	}
	return true
}

// wrote removes lines that were written, or notes the error.
func (q *Queue) wrote(n, size int, err error) {
	q.mu.Lock()
	before, dropped := q.failing, q.dropped
	q.failing = err
	if err == nil {
		q.lines, q.bytes = q.lines[n:], q.bytes-size
		if len(q.lines) == 0 {
			q.lines = nil // frees the lines
		}
	}
	q.mu.Unlock()
	switch {
	case err != nil && before == nil && q.config.Failed != nil:
		q.config.Failed(err)
	case err == nil && before != nil && q.config.Recovered != nil:
		q.config.Recovered(dropped)
	}
}

// pause waits before the next attempt. It reports false if the queue was closed meanwhile: the lines that wait are given up.
func (q *Queue) pause() bool {
	timer := time.NewTimer(RetryTime)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case _, open := <-q.more:
			if !open {
				return false
			}
		}
	}
}
