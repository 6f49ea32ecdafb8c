package netproxy

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A process can cause a log line with each host that it asks for. Of these the log
// gets logBurst at once and then logsPerSecond. All decisions are still reported to
// the client, and counted.
const (
	logBurst      = 200
	logsPerSecond = 10
)

// LimitLog returns a logger for lines that one process can cause at will: it drops
// lines that come too fast. The next line that it writes has the number of dropped
// lines.
func LimitLog(log *slog.Logger) *slog.Logger {
	return slog.New(&limitedLog{Handler: log.Handler(), limit: &logLimit{left: logBurst}})
}

// A limitedLog is a slog.Handler that passes a limited number of lines on.
type limitedLog struct {
	slog.Handler
	limit *logLimit // shared with the handlers that WithAttrs and WithGroup return
}

// Handle implements slog.Handler.
func (h *limitedLog) Handle(ctx context.Context, r slog.Record) error {
	leftOut, ok := h.limit.take(time.Now())
	if !ok {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("linesLeftOut", leftOut))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *limitedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitedLog{h.Handler.WithAttrs(attrs), h.limit}
}

// WithGroup implements slog.Handler.
func (h *limitedLog) WithGroup(name string) slog.Handler {
	return &limitedLog{h.Handler.WithGroup(name), h.limit}
}

// A logLimit is a token bucket.
type logLimit struct {
	mu      sync.Mutex
	left    float64 // lines that may be written now
	at      time.Time
	leftOut int // since the last line that was written
}

// take reports whether one more line may be written, and how many were dropped before it.
func (l *logLimit) take(now time.Time) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if passed := now.Sub(l.at).Seconds(); passed > 0 {
		l.left = min(logBurst, l.left+passed*logsPerSecond)
		l.at = now
	}
	if l.left < 1 {
		l.leftOut++
		return 0, false
	}
	l.left--
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}
