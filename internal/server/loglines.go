package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// The log has one line for the end of each connection, and one for each beginning and end of a session and of a command. A line has names only:
// no value of the environment, no input, no output, no token, no secret id of a session, and of a command line only the program.

// maxLogged limits the texts of a line that clients choose, in bytes.
const maxLogged = 128

// A logLine is a line that is being made; nil: the log does not have such lines.
type logLine []slog.Attr

// logLine begins a line about a session; nil: about none.
func (s *Server) logLine(of *session.Session) (l *logLine) {
	if !s.log.Enabled(context.Background(), slog.LevelInfo) {
		return nil
	}
	l = new(logLine)
	*l = make([]slog.Attr, 0, 10)
	if of != nil {
		l.text("session", of.Public)
	}
	return l
}

// text adds a fact, unless it is empty.
func (l *logLine) text(key, value string) {
	if value != "" {
		*l = append(*l, slog.String(key, shortened(value)))
	}
}

func (l *logLine) number(key string, value int64) { *l = append(*l, slog.Int64(key, value)) }

// lasted adds how long something has taken.
func (l *logLine) lasted(begin time.Time) { l.number("durationMs", time.Since(begin).Milliseconds()) }

func (l *logLine) write(log *slog.Logger, message string) {
	log.LogAttrs(context.Background(), slog.LevelInfo, message, *l...)
}

// logSession logs that the client of a connection has opened or resumed a session.
func (c *conn) logSession(message string, of *session.Session, trace *wire.Trace) {
	if l := c.server.logLine(of); l != nil {
		l.text("listener", c.origin.Client.Via)
		l.text("client", of.Client)
		l.text("label", of.Label)
		l.text("principal", c.origin.Client.Principal)
		l.text("trace", traceID(trace))
		l.write(c.log, message)
	}
}

func (s *Server) logSessionEnd(of *session.Session) {
	if l := s.logLine(of); l != nil {
		l.lasted(of.CreatedAt)
		l.write(s.log, "session ended")
	}
}

// logEnd logs that a connection has ended, and why.
func (c *conn) logEnd(why error) {
	var of *session.Session
	if a := c.handshake.attachment.Load(); a != nil {
		of = a.Session
	}
	if l := c.server.logLine(of); l != nil {
		l.text("listener", c.origin.Client.Via)
		l.text("principal", c.origin.Client.Principal)
		l.lasted(c.began)
		if !rpc.IsDisconnect(why) {
			l.text("err", why.Error())
		}
		l.write(c.log, "connection ended")
	}
}

// logStart logs that a command was started, or why not.
func (r *request) logStart(p *wire.StartParams, process *session.Process, began time.Time, err error) {
	l := r.conn.server.logLine(r.attachment.Session)
	if l == nil {
		return
	}
	program := ""
	if len(p.Argv) > 0 {
		program = p.Argv[0]
	}
	l.command(p.ProcessID, program, traceID(r.Trace), began)
	message := "command started"
	if err != nil {
		message = "command not started"
		l.text("err", wireError(err).Message)
	} else {
		l.text("sandbox", process.Command.SandboxType())
	}
	l.write(r.conn.server.log, message)
}

func (l *logLine) command(process, program, trace string, began time.Time) {
	l.text("process", process)
	l.text("command", program)
	l.text("trace", trace)
	l.lasted(began)
}

// logExit logs that a command has exited.
func (s *Server) logExit(p *session.Process, code int, kind string) {
	l := s.logLine(p.Owner())
	if l == nil {
		return
	}
	l.command(p.ID, p.Program(), p.TraceID(), p.Began())
	l.number("code", int64(code))
	l.text("kind", kind)
	if p.Command.Denial().Denied {
		l.text("denied", "true")
	}
	l.write(s.log, "command exited")
}
