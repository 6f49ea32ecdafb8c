package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tetherexec/tether/internal/linequeue"
)

// Limits of the queue. A line has about 400 bytes, so the first one counts.
const (
	maxLines = 16384
	maxBytes = 16 << 20
)

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
	strict bool
	target io.WriteCloser
	lines  *linequeue.Queue
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
	return newLog(c, target), nil
}

func newLog(c Config, target io.WriteCloser) *Log {
	return &Log{strict: c.Strict, target: target, lines: linequeue.New(linequeue.Config{
		Target: target, MaxLines: maxLines, MaxBytes: maxBytes,
		Gap: func(count uint64) []byte {
			return line(Event{Time: time.Now().UTC(), Event: LinesDropped, Count: count})
		},
		Failed: func(err error) {
			c.Log.Error("the audit log cannot be written", "target", c.Target, "err", err)
		},
		Recovered: func(dropped uint64) {
			c.Log.Info("the audit log can be written again", "target", c.Target, "dropped", dropped)
		},
	})}
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
	l.lines.Add(line(e))
}

func line(e Event) []byte {
	text, err := json.Marshal(e)
	if err != nil { // no field can fail
		panic(err)
	}
	return append(text, '\n')
}

// Ready returns ErrFull with the cause if a strict log cannot record events at the moment.
func (l *Log) Ready() error {
	if l == nil || !l.strict {
		return nil
	}
	lines, bytes, failing := l.lines.Waiting()
	switch {
	case failing != nil:
		return fmt.Errorf("%w: %w", ErrFull, failing)
	case lines >= maxLines/2 || bytes >= maxBytes/2: // the other half is for what has started already
		return fmt.Errorf("%w: %d lines wait", ErrFull, lines)
	}
	return nil
}

// Dropped is how many events were not recorded.
func (l *Log) Dropped() uint64 {
	if l == nil {
		return 0
	}
	return l.lines.Dropped()
}

// Close writes what waits, as far as that is possible, and closes the target.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.lines.Close(context.Background())
	return l.target.Close()
}
