package client

import (
	"context"
	"fmt"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// Notification takes what the server tells. It is called in the order of arrival
// and does not wait.
func (l *link) Notification(method string, params []byte) error {
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
			e := Event{Kind: Exited, Seq: n.Seq, ExitCode: n.ExitCode, Denial: n.TetherDenial}
			if n.SandboxDenied != nil {
				e.SandboxDenied, e.verdictKnown = *n.SandboxDenied, true
			}
			c.event(n.ProcessID, e)
		}
	case wire.NoteProcessClosed:
		var n wire.ProcessClosed
		if err = wire.Decode(params, &n); err == nil {
			c.event(n.ProcessID, Event{Kind: Closed, Seq: n.Seq})
		}
	case wire.NoteHTTPBodyDelta:
		var n wire.HTTPBodyDelta
		if err = wire.Decode(params, &n); err == nil {
			err = c.bodyDelta(&n)
		}
	default:
		err = l.observed(method, params)
	}
	if err != nil {
		return fmt.Errorf("exec-server notification handling failed: %s: %w", method, err)
	}
	return nil
}

// output takes the output of processes, without the detour over a parsed message.
func (c *Client) output(msg []byte) (taken bool, err error) {
	n, taken, err := wire.ParseOutput(msg)
	if err != nil {
		return taken, fmt.Errorf("exec-server notification handling failed: %s: %w", wire.NoteProcessOutput, err)
	}
	if !taken {
		return false, nil
	}
	c.mu.Lock()
	p := c.processes[string(n.ProcessID)]
	c.mu.Unlock()
	if p != nil {
		p.take(Event{Kind: Output, Seq: n.Seq, Stream: n.Stream, Data: n.Chunk})
	}
	return true, nil
}

// event hands an event to its process; one of an unknown process is ignored.
func (c *Client) event(processID string, e Event) {
	c.mu.Lock()
	p := c.processes[processID]
	c.mu.Unlock()
	if p != nil {
		p.take(e)
	}
}

// A NetworkQuestion is a connection that a confined process wants to make.
type NetworkQuestion struct {
	Protocol string `json:"protocol"`
	Host     string `json:"host"`
	Port     uint16 `json:"port"`
}

// A NetworkDecision answers a NetworkQuestion.
type NetworkDecision struct {
	Type   string `json:"type"` // "allow", "deny" or "ask"
	Reason string `json:"reason,omitempty"`
}

// networkPolicyRequest is the one request that a server makes.
const networkPolicyRequest = "network/policyRequest"

type policyParams struct {
	ProcessID string   `json:"processId"`
	Request   question `json:"request"`
}

type question struct {
	Protocol string `json:"protocol"`
	Host     string `json:"host"`
	Port     uint16 `json:"port"`
}

type policyResult struct {
	Decision NetworkDecision `json:"decision"`
}

// Request answers what the server asks.
func (l *link) Request(r *rpc.Request) {
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
	if r.Method != networkPolicyRequest {
		done()
		r.Fail(wire.Errorf(wire.CodeMethodNotFound, "exec-server client does not implement `%s` yet", r.Method))
		return
	}
	l.client.decide(l.conn.Context(), r, done)
}

// decide answers a question about the network, and denies what nobody decides.
func (c *Client) decide(ctx context.Context, r *rpc.Request, done func()) {
	deny := func() {
		done()
		r.Reply(policyResult{NetworkDecision{Type: "deny", Reason: "not_allowed"}})
	}
	var p policyParams
	if err := wire.Decode(r.Params, &p); err != nil {
		done()
		r.Fail(wire.Errorf(wire.CodeInvalidParams, "%v", err))
		return
	}
	c.mu.Lock()
	known := c.processes[p.ProcessID] != nil
	c.mu.Unlock()
	if c.opts.NetworkPolicy == nil || !known || p.Request.Host == "" {
		deny()
		return
	}
	select {
	case c.policies <- struct{}{}:
	default:
		deny()
		return
	}
	c.tasks.Go(func() {
		defer func() { <-c.policies }()
		d := c.opts.NetworkPolicy(ctx, p.ProcessID, NetworkQuestion(p.Request))
		done()
		r.Reply(policyResult{d})
	})
}
