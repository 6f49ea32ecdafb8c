package main

import (
	"context"
	"io"
	"log/slog"
)

// A noteLog is a log handler for people: it prints messages and their errors as lines that
// begin with "tether: ", without times and levels.
type noteLog struct{ to io.Writer }

// Enabled implements slog.Handler.
func (l noteLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (l noteLog) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			text += ": " + a.Value.String()
		}
		return true
	})
	printLine(l.to, text)
	return nil
}

// WithAttrs implements slog.Handler. Only errors are shown, which come with the message.
func (l noteLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l noteLog) WithGroup(string) slog.Handler { return l }
