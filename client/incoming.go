package client

import (
	"fmt"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/wording"
	"github.com/tetherexec/tether/wire"
)

// Notification processes a notification of the server. The connection calls it in the order
// of arrival; it does not wait.
func (l *Link) Notification(method string, params []byte) error {
	c := l.client
	var err error
	switch method {
	case wire.NoteProcessOutput:
		var n wire.ProcessOutput
		if err = wire.Decode(params, &n); err == nil {
			c.event(n.ProcessID, Event{Kind: Output, Seq: n.Seq, Stream: n.Stream, Data: n.Chunk})
		}
	case wire.NoteProcessExited:
		var n wire.ProcessExited
		if err = wire.Decode(params, &n); err == nil {
			e := Event{Kind: Exited, Seq: n.Seq, ExitCode: n.ExitCode, Denial: n.TetherDenial, Limit: n.TetherLimit, Failure: n.TetherFailure, Usage: n.TetherUsage}
			if n.SandboxDenied != nil {
				e.SandboxDenied, e.verdictKnown = *n.SandboxDenied, true
			}
			c.event(n.ProcessID, e)
		}
	case wire.NoteProcessClosed:
		var n wire.ProcessClosed
		if err = wire.Decode(params, &n); err == nil {
			c.event(n.ProcessID, Event{Kind: Closed, Seq: n.Seq, Survivors: n.TetherSurvivors})
		}
	case wire.NoteNetworkPolicyDecision:
		c.decided(params)
	case wire.NoteGoodbye:
		return ErrServerStopped // this ends the connection, and with it the client
	default:
		err = c.extensions.notification(l, method, params)
	}
	if err != nil {
		return badNotification(method, err)
	}
	return nil
}

// badNotification is the error of a notification that cannot be decoded. It ends the
// connection.
func badNotification(method string, err error) error {
	return fmt.Errorf("the server sent a `%s` that makes no sense: %w", method, wording.Error(err))
}

// output processes output notifications directly from the message, without parsing it as a
// whole: this is the hot path.
func (c *Client) output(msg []byte) (taken bool, err error) {
	n, taken, err := wire.ParseOutput(msg)
	if err != nil {
		return taken, badNotification(wire.NoteProcessOutput, err)
	}
	if !taken {
		return c.extensions.peek(msg)
	}
	if p := c.processes.findBytes(n.ProcessID); p != nil {
		p.take(Event{Kind: Output, Seq: n.Seq, Stream: n.Stream, Data: n.Chunk})
	}
	return true, nil
}

// event hands an event to its process. An event of an unknown process is ignored.
func (c *Client) event(processID string, e Event) {
	if p := c.processes.find(processID); p != nil {
		p.take(e)
	}
}

// Request answers a request of the server.
func (l *Link) Request(r *rpc.Request) {
	id, isNumber := r.ID.Int()
	l.asked.Lock()
	bad := !isNumber || id < 0 || l.asked.ids[id]
	if !bad {
		l.asked.ids[id] = true
	}
	l.asked.Unlock()
	if bad {
		r.Fail(wire.Errorf(wire.CodeInvalidRequest, "request id is negative, a string or in use"))
		l.close(protocolError("server request id %s is negative, a string or in use", r.ID))
		return
	}
	done := func() {
		l.asked.Lock()
		delete(l.asked.ids, id)
		l.asked.Unlock()
	}
	if r.Method != wire.MethodNetworkPolicyRequest {
		done()
		r.Fail(wire.Errorf(wire.CodeMethodNotFound, "exec-server client does not implement `%s` yet", r.Method))
		return
	}
	l.client.decide(l.conn.Context(), r, done)
}
