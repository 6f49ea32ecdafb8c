package server

import (
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// What only tether has: a client may act on the processes of any session, by the
// id that lists show.

// sessionOf is the session that a public id names; without one, the client's own.
func (c *conn) sessionOf(a *session.Attachment, public *string) (*session.Session, error) {
	if public == nil {
		return a.Session, nil
	}
	return c.server.sessions.ByPublicID(*public)
}

func (c *conn) signal(a *session.Attachment, p *wire.SignalAnyParams) (wire.Empty, error) {
	s, err := c.sessionOf(a, p.SessionID)
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
	return wire.Empty{}, signalError(s.Signal(p.ProcessID, sig, p.OnceID))
}

func (c *conn) resize(a *session.Attachment, p *wire.ResizeParams) (wire.Empty, error) {
	s, err := c.sessionOf(a, p.SessionID)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, s.Resize(p.ProcessID, p.Rows, p.Cols)
}

func (c *conn) closeStdin(a *session.Attachment, p *wire.CloseStdinParams) (wire.Empty, error) {
	s, err := c.sessionOf(a, p.SessionID)
	if err != nil {
		return wire.Empty{}, err
	}
	if err := checkOnceID(p.OnceID); err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, s.CloseStdin(p.ProcessID, p.OnceID)
}

func (c *conn) writeAnyInput(a *session.Attachment, r *rpc.Request, p *wire.WriteAnyParams, done func()) {
	s, err := c.sessionOf(a, p.SessionID)
	if err != nil {
		defer done()
		c.fail(r, err)
		return
	}
	c.writeTo(s, r, &wire.WriteParams{ProcessID: p.ProcessID, Chunk: p.Chunk, WriteID: p.WriteID}, done)
}

func (c *conn) terminateAny(a *session.Attachment, p *wire.TerminateAnyParams) (wire.TerminateResult, error) {
	s, err := c.sessionOf(a, p.SessionID)
	if err != nil {
		return wire.TerminateResult{}, err
	}
	return wire.TerminateResult{Running: s.Terminate(p.ProcessID, s == a.Session)}, nil
}

// endAnySession answers when nothing is left of the session. A client that ends its
// own then loses its connection.
func (c *conn) endAnySession(a *session.Attachment, r *rpc.Request, p *wire.SessionEndParams) error {
	s, err := c.sessionOf(a, p.SessionID)
	if err != nil {
		return err
	}
	c.log.Info("session is ended by a client", "session", s.Public)
	if s == a.Session {
		a.EndSelf(func() { r.Reply(wire.Empty{}) })
		return nil
	}
	s.End()
	r.Reply(wire.Empty{})
	return nil
}

// checkOnceID refuses ids that are empty or too long to be remembered.
func checkOnceID(id *string) error {
	if id != nil && (*id == "" || len(*id) > wire.MaxOnceID) {
		return wire.Errorf(wire.CodeInvalidParams, "onceId must have 1 to %d bytes", wire.MaxOnceID)
	}
	return nil
}
