package server

import (
	"time"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// record adds what is known of a session to an event, and records it.
func (s *Server) record(of *session.Session, e audit.Event) {
	e.Principal, e.Session, e.Client, e.Label = of.OwnedBy(), of.Public, of.Client, of.Label
	s.audit.Record(e)
}

// record is record for what the client of a connection asks for.
func (c *conn) record(of *session.Session, e audit.Event) {
	e.Peer = c.origin.Client.Peer
	if by := c.origin.Client.Principal; by != of.OwnedBy() {
		e.By = by
	}
	c.server.record(of, e)
}

// record is conn.record, with the trace of the request.
func (r *request) record(of *session.Session, e audit.Event) {
	e.Trace = traceID(r.Trace)
	r.conn.record(of, e)
}

// traceID returns the id of a trace; "": there is none.
func traceID(t *wire.Trace) string {
	if t == nil {
		return ""
	}
	return t.ID
}

// recordStart records and logs a start that was asked for by a client. A start that the client has asked for again is recorded once.
func (r *request) recordStart(p *wire.StartParams, process *session.Process, began time.Time, err error) {
	if err == nil && process.StartRecorded() {
		return
	}
	r.logStart(p, process, began, err)
	if r.conn.server.audit == nil {
		return
	}
	cwd, _ := p.Cwd.Native() // "" if it is invalid, which the reason says
	e := audit.Event{Event: audit.ProcessStarted, Process: p.ProcessID, Argv: p.Argv, Cwd: cwd}
	if err != nil {
		e.Event, e.Reason = audit.ProcessRefused, wireError(err).Message
	} else {
		e.Sandbox, e.Network = process.Command.SandboxType(), process.Command.NetworkType()
	}
	r.record(r.attachment.Session, e)
}

// auditedExit records the exit of a process.
func (s *Server) auditedExit(p *session.Process, code int, kind string) {
	if s.audit != nil {
		s.record(p.Owner(), audit.Event{
			Event: audit.ProcessExited, Process: p.ID, Code: &code, Kind: kind, Denied: p.Command.Denial().Denied, Usage: p.Usage(),
			Trace: p.TraceID(),
		})
	}
}

// sessionEvents has the names of session events that concern no connection. The others are recorded with the address of the client.
var sessionEvents = map[session.SessionEvent]string{session.Expired: audit.SessionExpired, session.Ended: audit.SessionEnded, session.TakenOver: audit.SessionTakenOver}

// audited returns the files that a request changes, if that is to be recorded. The blocks of an open file are not: its opening is.
func (s *Server) audited(uses []schedule.PathUse, params any) (changes []string) {
	if _, block := params.(*wire.WriteBlockParams); block || s.audit == nil {
		return nil
	}
	for _, u := range uses {
		if u.Change {
			changes = append(changes, u.Path)
		}
	}
	return changes
}

// recordChange records a request that has changed files.
func (r *request) recordChange() {
	if len(r.changed) > 0 && r.conn.server.audit != nil {
		r.record(r.attachment.Session, audit.Event{Event: audit.FileChanged, Method: r.Method, Paths: r.changed})
	}
}

// recordSignal records that a client has sent a signal to a process of a session, or has asked it to end.
func (r *request) recordSignal(of *session.Session, process, signal string) {
	r.record(of, audit.Event{Event: audit.ProcessSignalled, Process: process, Signal: signal, Method: r.Method})
}

// recordDecision records a decision about a host.
func (s *Server) recordDecision(of *session.Session, d wire.NetworkDecision) {
	s.record(of, audit.Event{Event: audit.NetworkDecided, Process: d.ProcessID, Host: d.Host, Port: d.Port, Verdict: d.Decision, Source: d.Source, Reason: d.Reason})
}
