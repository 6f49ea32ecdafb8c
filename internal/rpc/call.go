package rpc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/wire"
)

// A Call is a request that this side sent and that waits for its answer.
type Call struct {
	conn    *Conn
	id      int64
	method  string
	begun   time.Time
	size    int               // of the request; guarded by calls
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

// Begin sends a request; Wait returns its answer. Requests of one goroutine leave
// in order. Begin waits while the peer is far behind. After an error nothing was
// sent. A request above MaxMessage, which no peer would read, is an error.
func (c *Conn) Begin(ctx context.Context, method string, params any) (*Call, error) {
	call := c.calls.expect(c, method)
	msg, err := wire.AppendRequest(nil, wire.IntID(call.id), method, params)
	if err == nil && len(msg) > MaxMessage {
		err = fmt.Errorf("request of %d bytes exceeds the limit of %d", len(msg), MaxMessage)
	}
	if err == nil {
		c.calls.setSize(call, len(msg))
		err = c.send(ctx, outgoing{msg: msg, dropped: func() { call.dropped.Store(true) }})
	}
	if err != nil {
		c.calls.forget(call.id)
		return nil, err
	}
	return call, nil
}

// Wait returns the answer. An answer that arrived before the connection ended is
// returned even after its end.
func (call *Call) Wait(ctx context.Context) (wire.RawValue, error) {
	defer call.conn.calls.forget(call.id)
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

// calls are the requests of this side that wait for their answers.
type calls struct {
	mu      sync.Mutex
	waiting map[int64]*Call
	lastID  int64
}

// expect prepares for the response to a new request.
func (cs *calls) expect(c *Conn, method string) *Call {
	call := &Call{conn: c, method: method, begun: time.Now(), reply: make(chan wire.Message, 1)}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.waiting == nil {
		cs.waiting = map[int64]*Call{}
	}
	cs.lastID++
	call.id = cs.lastID
	cs.waiting[call.id] = call
	return call
}

func (cs *calls) setSize(call *Call, size int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	call.size = size
}

func (cs *calls) forget(id int64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.waiting, id)
}

// resolve hands a response to its caller. A late response is ignored. It reports false if no request with the id was
// ever sent.
func (cs *calls) resolve(m wire.Message) bool {
	id, ok := m.ID.Int()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if call, known := cs.waiting[id]; ok && known {
		delete(cs.waiting, id)
		call.reply <- m
		return true
	}
	return ok && id >= 1 && id <= cs.lastID
}

// Waiting describes the calls that wait for their answers.
type Waiting struct {
	Calls   int
	Oldest  time.Time // when the oldest of them was begun
	Method  string    // of the oldest
	Largest int       // bytes of the largest request
}

// Waiting describes the calls that wait for their answers, except one, which may be
// nil.
func (c *Conn) Waiting(except *Call) (w Waiting) {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	for _, call := range c.calls.waiting {
		if call == except {
			continue
		}
		if w.Calls == 0 || call.begun.Before(w.Oldest) {
			w.Oldest, w.Method = call.begun, call.method
		}
		w.Calls++
		w.Largest = max(w.Largest, call.size)
	}
	return w
}
