package rpc

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/wire"
)

// A Call is a request of ours that waits for its answer.
type Call struct {
	conn    *Conn
	id      int64
	method  string
	begun   time.Time
	size    int               // of the request; guarded by conn.mu
	reply   chan wire.Message // of capacity 1
	dropped atomic.Bool
}

// Call sends a request to the peer and returns its result. A peer's error is
// returned as a *wire.Error. Call waits while the peer is far behind.
func (c *Conn) Call(ctx context.Context, method string, params any) (wire.RawValue, error) {
	call, err := c.Begin(ctx, method, params)
	if err != nil {
		return nil, err
	}
	return call.Wait(ctx)
}

// Begin sends a request whose answer is taken with Wait. Requests of one goroutine
// leave in order. Begin waits while the peer is far behind; after an error nothing
// was sent. A request that no peer would read is such an error.
func (c *Conn) Begin(ctx context.Context, method string, params any) (*Call, error) {
	call := c.expect(method)
	msg, err := wire.AppendRequest(nil, wire.IntID(call.id), method, params)
	if err == nil && len(msg) > MaxMessage {
		err = fmt.Errorf("request of %d bytes exceeds the limit of %d", len(msg), MaxMessage)
	}
	if err == nil {
		c.mu.Lock()
		call.size = len(msg)
		c.mu.Unlock()
		err = c.pushOwn(ctx, answer{msg: msg, dropped: func() { call.dropped.Store(true) }})
	}
	if err != nil {
		c.forget(call.id)
		return nil, err
	}
	return call, nil
}

// Wait returns the answer. An answer that came before the connection ended is
// returned in any case.
func (call *Call) Wait(ctx context.Context) (wire.RawValue, error) {
	defer call.conn.forget(call.id)
	select {
	case m := <-call.reply:
		return m.Result, callError(m)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-call.conn.served:
	}
	select {
	case m := <-call.reply:
		return m.Result, callError(m)
	default:
		return nil, context.Cause(call.conn.ctx)
	}
}

// NeverSent reports, once the connection has ended, that the peer cannot have seen
// the request.
func (call *Call) NeverSent() bool { return call.dropped.Load() }

func callError(m wire.Message) error {
	if m.Err != nil {
		return m.Err
	}
	return nil
}

// expect prepares for the response to a new request.
func (c *Conn) expect(method string) *Call {
	call := &Call{conn: c, method: method, begun: time.Now(), reply: make(chan wire.Message, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[int64]*Call{}
	}
	c.lastID++
	call.id = c.lastID
	c.calls[call.id] = call
	return call
}

func (c *Conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

// resolve hands a response to its caller. A late one is ignored; one that nobody
// can have asked for ends the connection, unless we are the client or tolerant.
func (c *Conn) resolve(m wire.Message) error {
	id, ok := m.ID.Int()
	c.mu.Lock()
	defer c.mu.Unlock()
	if call, known := c.calls[id]; ok && known {
		delete(c.calls, id)
		call.reply <- m
		return nil
	}
	if !c.client && c.salvage == nil && (!ok || id < 1 || id > c.lastID) {
		return violation(ClosePolicy, "response to a request that was never sent")
	}
	return nil
}
