package server

import (
	"errors"
	"syscall"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

func (c *conn) startProcess(a *session.Attachment, r *rpc.Request, p *wire.StartParams, done func()) {
	defer done()
	process, err := a.Session.StartProcess(p)
	if err != nil {
		c.fail(r, err)
		return
	}
	r.Reply(wire.StartResult{ProcessID: process.ID, SandboxType: process.Command.SandboxType()})
	a.StartAnswered(process)
}

func (c *conn) writeInput(a *session.Attachment, r *rpc.Request, p *wire.WriteParams, done func()) {
	c.writeTo(a.Session, r, p, done)
}

func (c *conn) writeTo(s *session.Session, r *rpc.Request, p *wire.WriteParams, done func()) {
	s.Write(p, func(status string, err error) {
		defer done()
		switch {
		case err == nil:
			r.Reply(wire.WriteResult{Status: status})
		case errors.Is(err, proc.ErrTerminated) || wireError(err).Code == wire.CodeInternal: // the reason is of no use to the client
			c.fail(r, wire.Errorf(wire.CodeInternal, "failed to write to process stdin"))
		default:
			c.fail(r, err)
		}
	})
}

func (c *conn) interrupt(a *session.Attachment, p *wire.SignalParams) (wire.Empty, error) {
	if err := checkOnceID(p.OnceID); err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, signalError(a.Session.Signal(p.ProcessID, syscall.SIGINT, p.OnceID))
}

func signalError(err error) error {
	if err == nil || errors.Is(err, session.ErrOnceReused) {
		return err
	}
	return wire.Errorf(wire.CodeInternal, "failed to signal process: %v", err)
}

func (c *conn) terminate(a *session.Attachment, p *wire.ProcessParams) (wire.TerminateResult, error) {
	return wire.TerminateResult{Running: a.Session.Terminate(p.ProcessID, true)}, nil
}
