package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/linequeue"
	"github.com/tetherexec/tether/internal/terminal"
)

// The values of --log-format.
const (
	formatAuto = "auto"
	formatText = "text"
	formatJSON = "json"
)

// Limits of the lines of a log that wait for the reader of standard error. A line has about 200 bytes.
const (
	maxLogLines = 4096
	maxLogBytes = 1 << 20
)

// logPatience is how long the end of a program waits for the reader of standard error.
const logPatience = time.Second

// logFlags say what is logged on standard error.
type logFlags struct {
	level, format choice
	fs            *pflag.FlagSet
	min           slog.LevelVar    // of the log that open has returned; it may be changed
	lines         *linequeue.Queue // nil: the log is not open
}

func (f *logFlags) define(fs *pflag.FlagSet, level string) {
	f.fs = fs
	f.level = choice{level, "LEVEL", []string{"error", "warn", "info", "debug"}}
	f.format = choice{formatAuto, "FORMAT", []string{formatAuto, formatText, formatJSON}}
	fs.Var(&f.level, "log-level", "what to log on standard error: error, warn, info or debug, and all\nthat is more severe")
	fs.Var(&f.format, "log-format", "form of the log: text, json, or auto: text on a terminal, else json")
	group(fs, "Logging", "log-level", "log-format")
}

// json reports whether the log is JSON.
func (f *logFlags) json(stderr io.Writer) bool {
	return f.format.value == formatJSON || f.format.value == formatAuto && !terminal.Is(stderr)
}

// open opens the log. No caller of the log waits for the reader of standard error: lines that wait too long are dropped. Close it.
func (f *logFlags) open(stderr io.Writer) *slog.Logger {
	f.min.Set(f.minimum())
	form := newLogForm(&f.min, f.json(stderr))
	f.lines = linequeue.New(linequeue.Config{
		Target: stderr, MaxLines: maxLogLines, MaxBytes: maxLogBytes,
		Gap: func(count uint64) []byte {
			var line bytes.Buffer
			slog.New(form(&line)).Error("lines of the log are missing: they were not read fast enough", "count", count)
			return line.Bytes()
		},
	})
	return slog.New(form(queueWriter{f.lines}))
}

// close writes the lines that wait, as far as standard error is read.
func (f *logFlags) close() {
	if f.lines == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), logPatience)
	defer cancel()
	f.lines.Close(ctx)
}

// dropped is how many lines were not read fast enough.
func (f *logFlags) dropped() uint64 { return f.lines.Dropped() }

// A queueWriter adds each line to a queue. A log writes whole lines.
type queueWriter struct{ lines *linequeue.Queue }

func (w queueWriter) Write(line []byte) (int, error) {
	w.lines.Add(bytes.Clone(line)) // the log uses its buffer again
	return len(line), nil
}

// minimum is the least level that is logged.
func (f *logFlags) minimum() (min slog.Level) {
	if err := min.UnmarshalText([]byte(f.level.value)); err != nil {
		panic(err) // the flag has checked it
	}
	return min
}

// newLogForm returns what gives a log its form.
func newLogForm(min slog.Leveler, json bool) func(io.Writer) slog.Handler {
	options := &slog.HandlerOptions{Level: min}
	return func(w io.Writer) slog.Handler {
		if json {
			return slog.NewJSONHandler(w, options)
		}
		return slog.NewTextHandler(w, options)
	}
}
