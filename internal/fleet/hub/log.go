package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// maxRecords is how many records of the server are logged in a second. The server logs each refusal, so a hostile client could
// fill the disk.
const maxRecords = 20

// A logger passes the log of the server on. The server's notices are of interest only to people who look for a fault.
type logger struct {
	log   *slog.Logger
	fatal chan error // has the first error that keeps the server from its work

	mu      sync.Mutex
	begin   time.Time // of the current second
	records int       // in that second
}

func newLogger(log *slog.Logger) *logger { return &logger{log: log, fatal: make(chan error, 1)} }

func (l *logger) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.write(slog.LevelWarn, format, v) }
func (l *logger) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}

// Fatalf is called when the server cannot go on. It must not end the process.
func (l *logger) Fatalf(format string, v ...any) {
	err := errors.New(text(format, v))
	select {
	case l.fatal <- err:
	default:
		l.log.Error(serverLog, "err", err)
	}
}

// serverLog is the message of all records. The text of the server is an attribute.
const serverLog = "server of the hub"

func (l *logger) write(level slog.Level, format string, v []any) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	left, ok := l.admit(time.Now())
	if left > 0 {
		l.log.Warn("records of the server were left out", "count", left)
	}
	if ok {
		l.log.Log(ctx, level, serverLog, "text", text(format, v))
	}
}

// admit reports whether a record may be logged, and how many of the second before were not.
func (l *logger) admit(now time.Time) (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.begin) >= time.Second {
		left = max(0, l.records-maxRecords)
		l.begin, l.records = now, 0
	}
	l.records++
	return left, l.records <= maxRecords
}

func text(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }
