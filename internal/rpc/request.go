package rpc

import (
	"context"
	"sync"

	"github.com/tetherexec/tether/wire"
)

// A Request is a peer's request that waits for its answer.
type Request struct {
	ID     wire.ID
	Method string
	Params wire.RawValue

	conn   *Conn
	size   int
	permit int64
}

// Reply answers with a result.
func (r *Request) Reply(result any) {
	msg, err := wire.AppendResult(make([]byte, 0, usualAnswer), r.ID, result)
	if err != nil {
		r.conn.log.Error("cannot encode a result", "method", r.Method, "err", err)
		r.Fail(wire.Errorf(wire.CodeInternal, "internal error"))
		return
	}
	r.ReplyEncoded(msg)
}

// usualAnswer is the room that an answer gets before its size is known.
const usualAnswer = 192

// Fail answers with an error.
func (r *Request) Fail(e *wire.Error) {
	r.ReplyEncoded(wire.AppendError(make([]byte, 0, usualAnswer), r.ID, e))
}

// ReplyEncoded answers with a complete message.
func (r *Request) ReplyEncoded(msg []byte) {
	r.queue(msg, nil)
	r.conn.flush(r.conn.requests.alone())
}

// QueueEncoded is ReplyEncoded for callers that hold a lock which written needs:
// nothing but the connection's writer sends the answer. written is called when
// the stream has taken it, and not at all if it never does; it must not wait.
func (r *Request) QueueEncoded(msg []byte, written func()) {
	r.queue(msg, written)
	r.conn.signal()
}

func (r *Request) queue(msg []byte, written func()) {
	held := max(r.size, len(msg)-int(r.permit))
	r.conn.requests.grow(held - r.size)
	r.conn.push(answer{msg: msg, request: true, held: held, permit: r.permit, written: written})
}

// Permit waits until an answer of n bytes may be prepared. It is given back
// when the answer has left. A request takes at most one.
func (r *Request) Permit(ctx context.Context, n int64) error {
	n = min(n, MaxAnswerBytes)
	if err := r.conn.permits.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	r.permit = n
	return nil
}

// admission bounds the requests that are unanswered and those whose answers
// wait to be taken.
type admission struct {
	mu     sync.Mutex
	left   sync.Cond
	count  int
	bytes  int
	closed bool
}

func (a *admission) init() { a.left.L = &a.mu }

// enter waits until a request of n bytes may come in. It returns false when the
// connection ends.
func (a *admission) enter(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.closed && (a.count >= MaxRequests || a.bytes > 0 && a.bytes+n > maxRequestBytes) {
		a.left.Wait()
	}
	if a.closed {
		return false
	}
	a.count++
	a.bytes += n
	return true
}

// grow is called when the answer of a request is larger than the request and
// has no permit.
func (a *admission) grow(n int) {
	if n == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes += n
}

// alone reports whether a request that is not answered yet is the only one: its peer
// waits for nothing else.
func (a *admission) alone() bool { return !a.more(1) }

// leave is called when a request's answer has left.
func (a *admission) leave(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count--
	a.bytes -= n
	a.left.Signal()
}

// more reports whether more than n requests are unanswered, or have answers that
// have not left.
func (a *admission) more(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count > n
}

func (a *admission) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.left.Broadcast()
}
