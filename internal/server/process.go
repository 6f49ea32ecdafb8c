package server

import (
	"errors"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// startProcess answers before any output of the process is pushed.
func (r *request) startProcess(p *wire.StartParams) error {
	if err := r.conn.server.audit.Ready(); err != nil {
		return wire.Errorf(wire.CodeInternal, "%v", err)
	}
	began := time.Now()
	process, err := r.attachment.Session.StartProcess(p, r.raw, r.commandTrace())
	r.recordStart(p, process, began, err)
	if err != nil {
		return err
	}
	if begin, end := process.Command.SetUp(); r.span != nil && begin.After(began) { // otherwise it has none, or an earlier request has started it
		r.span.Sandbox(process.Command.SandboxType(), begin, end)
	}
	r.Reply(wire.StartResult{ProcessID: process.ID, SandboxType: process.Command.SandboxType(), TetherLimits: inForce(process.Limits())})
	if after, push := r.attachment.StartAnswered(process); push {
		r.conn.Push(process, after, false)
	}
	return nil
}

func (r *request) writeInput(p *wire.WriteParams) error { return r.writeTo(r.attachment.Session, p) }

// writeTo answers when the input has been written, or cannot be.
func (r *request) writeTo(s *session.Session, p *wire.WriteParams) error {
	s.Write(p, func(status string, err error) {
		switch {
		case err == nil:
			r.Reply(wire.WriteResult{Status: status})
		case errors.Is(err, proc.ErrTerminated) || wireError(err).Code == wire.CodeInternal: // the cause is of no use to the client
			r.Fail(explain(r.Method, wire.Errorf(wire.CodeInternal, "failed to write to process stdin"), err))
		default:
			r.fail(err)
		}
	})
	return nil
}

func (r *request) interrupt(p *wire.SignalParams) (wire.Empty, error) {
	if err := checkOnceID(p.OnceID); err != nil {
		return wire.Empty{}, err
	}
	r.recordSignal(r.attachment.Session, p.ProcessID, "INT")
	return wire.Empty{}, signalError(r.attachment.Session.Signal(p.ProcessID, syscall.SIGINT, p.OnceID))
}

func signalError(err error) error {
	if err == nil || errors.Is(err, session.ErrOnceReused) {
		return err
	}
	return wire.Errorf(wire.CodeInternal, "failed to signal process: %v", err)
}

func (r *request) terminate(p *wire.ProcessParams) (wire.TerminateResult, error) {
	return wire.TerminateResult{Running: r.end(r.attachment.Session, p.ProcessID)}, nil
}

// end ends a process of a session. The line of the audit log about that comes before the line about the exit.
func (r *request) end(s *session.Session, process string) (running bool) {
	if s.IsRunning(process) {
		r.recordSignal(s, process, "TERM")
	}
	return s.Terminate(process, s == r.attachment.Session)
}
