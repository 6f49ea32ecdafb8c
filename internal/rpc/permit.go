package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/tetherexec/tether/wire"
)

// admit lets a request in when there is room for it. It reports false if it has refused
// the request; the error ends the connection.
func (c *Conn) admit(r *Request) (bool, error) {
	free, ok := c.requests.enter(r.size, r.charge > 0, c.urgent != nil && c.urgent(r.Method))
	if !ok {
		c.memory.in.Release(r.charge)
		return false, c.reason()
	}
	if r.free = free; free || r.charge > 0 {
		return true, nil
	}
	cost := max(int64(r.size), requestCost)
	switch err := c.memory.acquire(c.ctx, c.memory.in, cost); {
	case err == nil:
		r.charge = cost
		return true, nil
	case !errors.Is(err, ErrNoRoom):
		c.requests.leave(r.size, false)
		return false, err
	}
	refusal := c.refusalOf(r.Method)
	if refusal == nil {
		return false, errTryAgain
	}
	r.Fail(refusal)
	return false, nil
}

// refuse answers the request that begins with head and was dropped.
func (c *Conn) refuse(head []byte) error {
	id, method, ok := glimpse(head)
	var refusal *wire.Error
	if ok {
		refusal = c.refusalOf(method)
	}
	if refusal == nil {
		return errTryAgain
	}
	free, ok := c.requests.enter(0, false, true)
	if !ok {
		return c.reason()
	}
	r := &Request{ID: id, Method: method, conn: c, free: free}
	r.Fail(refusal)
	return nil
}

var errTryAgain = violation(CloseTryAgain, ErrNoRoom.Error())

func (c *Conn) refusalOf(method string) *wire.Error {
	if c.refusal != nil {
		return c.refusal(method)
	}
	return wire.Errorf(wire.CodeInvalidRequest, "%v", ErrNoRoom)
}

// glimpse finds the id and the method of a request of which only the beginning is known.
func glimpse(head []byte) (id wire.ID, method string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(head))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return id, "", false
	}
	var rawID json.RawMessage
	for rawID == nil || method == "" {
		key, err := d.Token()
		if err != nil {
			return id, "", false
		}
		var value json.RawMessage
		if d.Decode(&value) != nil { // it is cut off
			return id, "", false
		}
		switch key {
		case "id":
			rawID = value
		case "method":
			if json.Unmarshal(value, &method) != nil {
				return id, "", false
			}
		}
	}
	request, err := wire.Parse([]byte(`{"method":"","id":` + string(rawID) + `}`))
	return request.ID, method, err == nil
}

// A permit is the room for an answer.
type permit struct {
	own    int64 // of the connection's permits
	spare  int64 // of what the connection may have beside memory
	shared int64 // of memory
}

// size is how large an answer may be that has the permit.
func (p permit) size() int64 { return p.spare + p.shared }

// Permit waits until an answer of n bytes may be prepared. It is given back when the
// answer has left. A request takes at most one. An answer of at most spareAnswers waits
// for earlier answers of its own connection only; for a larger one, ErrNoRoom means that
// other connections left no room for it for roomPatience.
func (r *Request) Permit(ctx context.Context, n int64) error {
	if err := r.permitOwn(ctx, n); err != nil {
		return err
	}
	if n <= spareAnswers {
		return r.permitSmall(ctx, n)
	}
	return r.permitShared(ctx, min(n, r.conn.memory.outLimit))
}

// PermitSome is Permit for an answer that can be as small as spareAnswers. It returns how
// large the answer may be, and never waits for other connections.
func (r *Request) PermitSome(ctx context.Context, n int64) (int64, error) {
	if err := r.permitOwn(ctx, n); err != nil {
		return 0, err
	}
	if n > spareAnswers && r.conn.memory.out.TryAcquire(n) {
		r.permit.shared = n
		return n, nil
	}
	if n > spareAnswers {
		n = spareAnswers
		r.conn.permits.Release(r.permit.own - n)
		r.permit.own = n
	}
	return n, r.permitSmall(ctx, n)
}

// PermitMore adds n bytes to a permit, for an answer whose size shows while it is
// prepared. It does not wait without end for anything, since others may wait for the same
// in turn.
func (r *Request) PermitMore(ctx context.Context, n int64) error {
	if own := min(n, MaxAnswerBytes-r.permit.own); own > 0 {
		if err := r.conn.memory.acquire(ctx, r.conn.permits, own); err != nil {
			return err
		}
		r.permit.own += own
	}
	return r.permitShared(ctx, n)
}

func (r *Request) permitOwn(ctx context.Context, n int64) error {
	n = min(n, MaxAnswerBytes)
	if err := r.conn.permits.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	r.permit.own = n
	return nil
}

func (r *Request) permitSmall(ctx context.Context, n int64) error {
	switch {
	case r.conn.spare.TryAcquire(n):
		r.permit.spare = n
	case r.conn.memory.out.TryAcquire(n):
		r.permit.shared = n
	case r.conn.spare.Acquire(ctx, n) == nil:
		r.permit.spare = n
	default:
		return context.Cause(ctx)
	}
	return nil
}

func (r *Request) permitShared(ctx context.Context, n int64) error {
	if err := r.conn.memory.acquire(ctx, r.conn.memory.out, n); err != nil {
		return err
	}
	r.permit.shared += n
	return nil
}

// trim gives back what an answer of n bytes does not need.
func (r *Request) trim(n int64) {
	p := &r.permit
	if over := min(p.shared, p.size()-n); over > 0 {
		r.conn.memory.out.Release(over)
		p.shared -= over
	}
	if over := p.size() - n; over > 0 {
		r.conn.spare.Release(over)
		p.spare -= over
	}
	if over := p.own - n; over > 0 {
		r.conn.permits.Release(over)
		p.own -= over
	}
}

// giveBack returns all of a permit.
func (c *Conn) giveBack(p permit) {
	c.permits.Release(p.own)
	c.spare.Release(p.spare)
	c.memory.out.Release(p.shared)
}
