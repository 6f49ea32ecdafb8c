package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Limits of the queue. A line has about 400 bytes, so the first one counts.
const (
	maxLines = 16384
	maxBytes = 16 << 20
)

// retryTime is how long the writer waits after an error before it tries again.
const retryTime = time.Second

// ErrFull means that events cannot be recorded at the moment, and that the administrator wants nothing to happen without a record.
var ErrFull = errors.New("the audit log cannot be written, and this server starts nothing without it")

// Config says where events are recorded.
type Config struct {
	// Target is the path of a file, "stderr" or "syslog"; "": nothing is recorded.
	Target string

	// MaxSize is the size at which a file is rotated, and Keep how many rotated files are kept. 0: the defaults.
	MaxSize int64
	Keep    int

	// Strict lets Ready fail while events cannot be recorded. Otherwise they are dropped and counted.
	Strict bool

	Log *slog.Logger // gets errors
}

// IsFile reports whether the target is a file.
func (c Config) IsFile() bool { return c.Target != "" && c.Target != Stderr && c.Target != Syslog }

// Check returns an error if the target cannot be opened.
func (c Config) Check() error {
	l, err := Open(c)
	return errors.Join(err, l.Close())
}

// A Log records events. A nil *Log records nothing.
type Log struct {
	config Config
	target io.WriteCloser
	ended  chan struct{} // closed when the writer has ended
	more   chan struct{} // has an element if there may be lines

	mu      sync.Mutex // guards the fields below
	lines   [][]byte
	bytes   int
	dropped uint64 // in all
	gap     uint64 // dropped since the last line that was queued
	failing error  // of the last attempt to write
	closed  bool
}

// Open opens the target. Close the Log. Without a target it is nil.
func Open(c Config) (*Log, error) {
	if c.Target == "" {
		return nil, nil
	}
	target, err := open(c)
	if err != nil {
		return nil, fmt.Errorf("audit log %s: %w", c.Target, err)
	}
	l := &Log{config: c, target: target, ended: make(chan struct{}), more: make(chan struct{}, 1)}
	go l.write() // Close waits for it
	return l, nil
}

// Record queues an event. It never waits.
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	e.shorten()
	line, err := json.Marshal(e)
	if err != nil { // no field can fail
		panic(err)
	}
	l.queue(append(line, '\n'))
}

func (l *Log) queue(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.lines) >= maxLines || l.bytes+len(line) > maxBytes {
		l.dropped++
		l.gap++
		return
	}
	if l.gap > 0 {
		l.addGapLocked()
	}
	l.lines, l.bytes = append(l.lines, line), l.bytes+len(line)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// addGapLocked records that lines are missing.
func (l *Log) addGapLocked() {
	line, _ := json.Marshal(Event{Time: time.Now().UTC(), Event: LinesDropped, Count: l.gap}) // cannot fail
	l.lines, l.bytes, l.gap = append(l.lines, append(line, '\n')), l.bytes+len(line)+1, 0
}

// Ready returns ErrFull with the cause if a strict log cannot record events at the moment.
func (l *Log) Ready() error {
	if l == nil || !l.config.Strict {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failing != nil:
		return fmt.Errorf("%w: %w", ErrFull, l.failing)
	case len(l.lines) >= maxLines/2 || l.bytes >= maxBytes/2: // the other half is for what has started already
		return fmt.Errorf("%w: %d lines wait", ErrFull, len(l.lines))
	}
	return nil
}

// Dropped is how many events were not recorded.
func (l *Log) Dropped() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// Close writes what waits, as far as that is possible, and closes the target.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	close(l.more)
	<-l.ended
	return l.target.Close()
}

// write is the writer. It ends when the Log is closed, and everything is written or cannot be.
func (l *Log) write() {
	defer close(l.ended)
	for range l.more {
		for l.writeNext() {
		}
	}
	for l.writeNext() {
	}
}

// writeNext writes the lines that wait, and reports whether it should be called again at once.
func (l *Log) writeNext() bool {
	l.mu.Lock()
	lines := l.lines
	l.mu.Unlock()
	if len(lines) == 0 {
		return false
	}
	var batch []byte
	n := 0
	for n < len(lines) && (n == 0 || len(batch)+len(lines[n]) <= maxBatch) {
		batch = append(batch, lines[n]...)
		n++
	}
	_, err := l.target.Write(batch)
	l.wrote(n, len(batch), err)
	if err != nil {
		return l.pause()
	}
	return true
}

// maxBatch bounds what is written at once.
const maxBatch = 64 << 10

// wrote removes lines that were written from the queue, or notes the error.
func (l *Log) wrote(n, size int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.failing == nil {
			l.config.Log.Error("the audit log cannot be written", "target", l.config.Target, "err", err)
		}
		l.failing = err
		return
	}
	if l.failing != nil {
		l.config.Log.Info("the audit log can be written again", "target", l.config.Target, "dropped", l.dropped)
	}
	l.failing = nil
	l.lines, l.bytes = l.lines[n:], l.bytes-size
	if len(l.lines) == 0 {
		l.lines = nil // frees the lines
	}
}

// pause waits before the next attempt. It reports false if the Log was closed meanwhile: what waits is given up.
func (l *Log) pause() bool {
	timer := time.NewTimer(retryTime)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case _, open := <-l.more:
			if !open {
				return false
			}
		}
	}
}
