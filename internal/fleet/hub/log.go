package hub

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// A logger passes the log of the server on. The server's notices are of interest only to people who look for a fault.
type logger struct {
	log   *slog.Logger
	fatal chan error // has the first error that keeps the server from its work
}

func newLogger(log *slog.Logger) *logger { return &logger{log: log, fatal: make(chan error, 1)} }

// serverLog is the message of all records. The text of the server is an attribute.
const serverLog = "server of the hub"

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(serverLog, "text", text(format, v)) }
func (l *logger) Warnf(format string, v ...any)   { l.log.Warn(serverLog, "text", text(format, v)) }
func (l *logger) Errorf(format string, v ...any)  { l.log.Error(serverLog, "text", text(format, v)) }
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

func text(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }
