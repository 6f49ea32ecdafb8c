package server

import (
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// Methods that only tether has: a client may act on the processes of every session of its principal, by the id that lists show. With the scope of
// an administrator it may act on those of all sessions.

// sessionOf returns the session with a public id. Without an id it is the client's
// own session.
func (r *request) sessionOf(public *string) (*session.Session, error) {
	if public == nil {
		return r.attachment.Session, nil
	}
	return r.conn.byPublicID(*public)
}

// byPublicID returns a session that the client may use.
func (c *conn) byPublicID(id string) (*session.Session, error) {
	return c.server.sessions.ByPublicID(id, c.rights())
}

func (r *request) signal(p *wire.SignalAnyParams) (wire.Empty, error) {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return wire.Empty{}, err
	}
	sig, err := signalNumber(string(p.Signal))
	if err != nil {
		return wire.Empty{}, err
	}
	if err := checkOnceID(p.OnceID); err != nil {
		return wire.Empty{}, err
	}
	r.recordSignal(s, p.ProcessID, string(p.Signal))
	return wire.Empty{}, signalError(s.Signal(p.ProcessID, sig, p.OnceID))
}

func (r *request) resize(p *wire.ResizeParams) (wire.Empty, error) {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, s.Resize(p.ProcessID, p.Rows, p.Cols)
}

func (r *request) closeStdin(p *wire.CloseStdinParams) (wire.Empty, error) {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return wire.Empty{}, err
	}
	if err := checkOnceID(p.OnceID); err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, s.CloseStdin(p.ProcessID, p.OnceID)
}

func (r *request) writeAnyInput(p *wire.WriteAnyParams) error {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return err
	}
	return r.writeTo(s, &wire.WriteParams{ProcessID: p.ProcessID, Chunk: p.Chunk, WriteID: p.WriteID})
}

func (r *request) terminateAny(p *wire.TerminateAnyParams) (wire.TerminateResult, error) {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return wire.TerminateResult{}, err
	}
	return wire.TerminateResult{Running: r.end(s, p.ProcessID)}, nil
}

// endAnySession answers when nothing is left of the session. If it is the client's
// own session, its connection then ends.
func (r *request) endAnySession(p *wire.SessionEndParams) error {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return err
	}
	if s != r.attachment.Session && r.conn.readOnly() {
		return errReadOnly(r.Method)
	}
	r.conn.log.Info("session is ended by a client", "session", s.Public)
	if s == r.attachment.Session {
		r.attachment.EndSelf(func() { r.Reply(endResult(s)) })
		return nil
	}
	r.recordSignal(s, "", "")
	s.End()
	r.Reply(endResult(s))
	return nil
}

// endResult tells what is left of a session that has ended.
func endResult(s *session.Session) wire.SessionEndResult {
	return wire.SessionEndResult{Survivors: s.Survivors()}
}

// checkOnceID refuses ids that are empty or too long to be remembered.
func checkOnceID(id *string) error {
	if id != nil && (*id == "" || len(*id) > wire.MaxOnceID) {
		return wire.Errorf(wire.CodeInvalidParams, "onceId must have 1 to %d bytes", wire.MaxOnceID)
	}
	return nil
}
