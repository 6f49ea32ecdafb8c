package server

import (
	"bytes"
	"context"
	"errors"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// A request is a client's request after the handshake.
type request struct {
	*rpc.Request
	conn       *conn
	method     *method
	attachment *session.Attachment
	raw        []byte      // the parameters of a start, if it is to be recorded
	changed    []string    // the files that it changes, for the audit log
	span       RequestSpan // nil: not recorded, or ended
}

// Request implements rpc.Handler. It decodes the request and checks it against the state of the handshake at its
// arrival. The scheduler decides when the request runs.
func (c *conn) Request(in *rpc.Request) {
	if in.Method == wire.MethodInitialize {
		c.initialize(in)
		return
	}
	m, known := methods[in.Method]
	if !known {
		in.Fail(wire.Errorf(wire.CodeMethodNotFound, "exec-server stub does not implement `%s` yet", in.Method))
		return
	}
	if !m.looks && c.readOnly() {
		in.Fail(wireError(errReadOnly(in.Method)))
		return
	}
	params := m.newParams()
	if err := wire.Decode(in.Params, params); err != nil {
		in.Fail(wire.Errorf(wire.CodeInvalidParams, "%v", err))
		return
	}
	var raw []byte
	if in.Method == wire.MethodProcessStart && c.server.config.Kept != nil {
		raw = bytes.Clone(in.Params)
	}
	in.Params = nil // the message can be freed: params has copies
	a, err := c.handshake.ready(m.family)
	if err != nil {
		in.Fail(wireError(err))
		return
	}
	r := &request{Request: in, conn: c, method: m, attachment: a, raw: raw}
	c.server.counters.requests[0][m.number].Add(1)
	r.beginSpan()
	slow := m.pace >= slow
	if slow {
		c.server.working.Add(1)
	}
	job := schedule.Job{Slow: slow, Exclusive: m.pace == exclusive, Run: func() {
		if slow {
			defer c.server.working.Add(-1)
		}
		if err := r.lost(); err != nil {
			r.fail(err)
			return
		}
		m.run(r, params)
	}}
	if m.try != nil {
		job.Try = func() bool {
			done := r.lost() == nil && m.try(r, params)
			if done {
				c.server.working.Add(-1) // Run is not called
			}
			return done
		}
	}
	c.order(&job, params)
	r.changed = c.server.audited(job.Paths, params)
	c.scheduler.Submit(job)
}

// rights are those of the client.
func (c *conn) rights() session.Rights {
	of := &c.origin.Client
	return session.Rights{Principal: of.Principal, ReadOnly: of.ReadOnly, Admin: of.Admin}
}

// readOnly reports whether the client may only look.
func (c *conn) readOnly() bool { return c.origin.Client.ReadOnly }

// errReadOnly refuses a request of a client that may only look.
func errReadOnly(method string) error {
	return wire.Errorf(wire.CodeInvalidRequest, "this connection is read-only: `%s` is not allowed on it", method).WithReason(wire.ErrorReadOnly)
}

// lost returns session.ErrResumed if another connection has taken over the session, perhaps while the request waited.
func (r *request) lost() error {
	if errors.Is(context.Cause(r.attachment.Context()), session.ErrResumed) {
		return session.ErrResumed
	}
	return nil
}

func (r *request) fail(err error) { r.Fail(explain(r.Method, wireError(err), err)) }

// Reply answers with a result, and records what has changed.
func (r *request) Reply(result any) {
	r.recordChange()
	r.endSpan("")
	r.Request.Reply(result)
}

// Fail answers with an error, and counts it.
func (r *request) Fail(e *wire.Error) {
	r.conn.server.counters.requests[1][r.method.number].Add(1)
	r.endSpan(e.Message)
	r.Request.Fail(e)
}

// refusal is the answer to a request for which there was no room. For input it is
// nil, which ends the connection: after a refused write, the writes that follow it
// must not be accepted.
func refusal(method string) *wire.Error {
	if method == wire.MethodProcessWrite || method == wire.MethodProcessWriteAny {
		return nil
	}
	return wireError(rpc.ErrNoRoom)
}
