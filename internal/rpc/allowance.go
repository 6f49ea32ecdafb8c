package rpc

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limits of a connection.
const (
	// MaxRequests is how many requests may be unanswered. At the limit nothing is
	// read from the peer.
	MaxRequests = 4096

	// maxRequestBytes limits the total size of unanswered requests. One message of
	// the largest size always fits.
	maxRequestBytes = 2 * MaxMessage

	// MaxAnswerBytes limits the total size of large answers that wait for the peer
	// to take them. Each takes a permit before its data is read.
	MaxAnswerBytes = 32 << 20

	// maxOwnBytes limits the total size of a client's requests and notifications
	// that wait for the peer to take them. maxNoteBytes is the limit of a server,
	// which has many peers and few requests.
	maxOwnBytes  = 64 << 20
	maxNoteBytes = 4 << 20

	// messageCost is what a queued message costs besides its bytes.
	messageCost = 128
)

// An allowance limits the memory that the messages of one connection hold.
type allowance struct {
	memory   *Memory // shared with the other connections of a server
	requests admission
	permits  *semaphore.Weighted // bytes of large answers
	spare    *semaphore.Weighted // bytes of answers that need no room in memory
	own      *semaphore.Weighted // bytes of our own requests and notifications
	maxOwn   int64               // the size of own
}

func (b *allowance) init(memory *Memory, client bool) {
	b.memory, b.maxOwn = memory, maxNoteBytes
	if memory == nil {
		b.memory = NewMemory()
	}
	if client {
		b.maxOwn = maxOwnBytes
	}
	b.permits = semaphore.NewWeighted(MaxAnswerBytes)
	b.spare = semaphore.NewWeighted(spareAnswers)
	b.own = semaphore.NewWeighted(b.maxOwn)
	b.requests.left = make(chan struct{}, 1)
}

// A claim is the part of the allowance that a message holds until it is written.
type claim struct {
	request bool  // it answers a request; bytes, free, charge and permit are for answers only
	bytes   int   // counted in admission.bytes
	free    bool  // they are counted in admission.free too
	charge  int64 // room in memory, in bytes
	permit  permit
	own     int64 // bytes of own, for requests and notifications of this side
}

// release gives back the claim of a message.
func (b *allowance) release(c claim) {
	if !c.request {
		b.own.Release(c.own)
		return
	}
	if c.permit != (permit{}) {
		b.permits.Release(c.permit.own)
		b.spare.Release(c.permit.spare)
		b.memory.out.Release(c.permit.shared)
	}
	if c.charge > 0 {
		b.memory.in.Release(c.charge)
	}
	b.requests.leave(c.bytes, c.free)
}

// acquireOwn waits for room for a request or notification of this side.
func (b *allowance) acquireOwn(ctx context.Context, size int) (int64, error) {
	own := b.ownCost(size)
	if err := b.own.Acquire(ctx, own); err != nil {
		return 0, context.Cause(ctx)
	}
	return own, nil
}

// ownCost is how much of own a message takes.
func (b *allowance) ownCost(size int) int64 { return min(int64(size)+messageCost, b.maxOwn) }

// admission limits the requests that are unanswered or whose answers are not yet
// written.
type admission struct {
	left chan struct{} // of capacity 1: wakes the reader when an answer has been written

	mu      sync.Mutex
	waiting bool // the reader waits in enter
	closed  bool
	count   int
	bytes   int
	free    int // the part of bytes that has no room in memory
}

// enter waits until a request of n bytes may come in. charged says that the request has
// room in memory already. Otherwise free says whether it needs none, which is always so
// for an urgent request. ok is false when the connection ends. Only the reader calls
// it.
func (a *admission) enter(n int, charged, urgent bool) (free, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.closed && (a.count >= MaxRequests || a.bytes > 0 && a.bytes+n > maxRequestBytes) {
		a.waiting = true
		a.mu.Unlock()
		<-a.left
		a.mu.Lock()
	}
	if a.closed {
		return false, false
	}
	a.count++
	a.bytes += n
	if free = !charged && (urgent || a.free+n <= spareRequests); free {
		a.free += n
	}
	return free, true
}

// wakeLocked wakes the reader if it waits in enter.
func (a *admission) wakeLocked() {
	if a.waiting {
		a.waiting = false
		a.left <- struct{}{} // does not block: the reader has taken the last signal
	}
}

// grow is called when the answer of a request is larger than the request and
// has no permit.
func (a *admission) grow(n int, free bool) {
	if n == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes += n
	if free {
		a.free += n
	}
}

// alone reports whether only one request is unanswered: the peer waits for nothing
// else.
func (a *admission) alone() bool { return !a.more(1) }

// leave is called when a request's answer has been written or dropped.
func (a *admission) leave(n int, free bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count--
	a.bytes -= n
	if free {
		a.free -= n
	}
	a.wakeLocked()
}

// more reports whether more than n requests are unanswered or have answers that are
// not yet written.
func (a *admission) more(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count > n
}

func (a *admission) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.wakeLocked()
}

// A permit is the room that an answer holds.
type permit struct {
	own    int64 // from the connection's permits
	spare  int64 // from the connection's spare room
	shared int64 // from memory, shared by all connections
}

// size is the largest answer that the permit allows.
func (p permit) size() int64 { return p.spare + p.shared }

// Permit waits until an answer of n bytes may be prepared. The permit is given back when
// the answer has been written. A request takes at most one. An answer of at most
// spareAnswers waits only for earlier answers of its own connection. For a larger
// answer, ErrNoRoom means that other connections left no room for it for roomTimeout.
func (r *Request) Permit(ctx context.Context, n int64) error {
	if err := r.permitOwn(ctx, n); err != nil {
		return err
	}
	if n <= spareAnswers {
		return r.permitSmall(ctx, n)
	}
	return r.permitShared(ctx, min(n, r.conn.allowance.memory.outLimit))
}

// PermitSome is Permit for an answer that can be as small as spareAnswers. It returns how
// large the answer may be, and never waits for other connections.
func (r *Request) PermitSome(ctx context.Context, n int64) (int64, error) {
	if err := r.permitOwn(ctx, n); err != nil {
		return 0, err
	}
	if n > spareAnswers && r.conn.allowance.memory.out.TryAcquire(n) {
		r.permit.shared = n
		return n, nil
	}
	if n > spareAnswers {
		n = spareAnswers
		r.conn.allowance.permits.Release(r.permit.own - n)
		r.permit.own = n
	}
	return n, r.permitSmall(ctx, n)
}

// PermitMore adds n bytes to a permit, for an answer whose size becomes known while it is
// prepared. Every wait in it has a limit, since other requests may wait for the same room
// in turn.
func (r *Request) PermitMore(ctx context.Context, n int64) error {
	if own := min(n, MaxAnswerBytes-r.permit.own); own > 0 {
		if err := r.conn.allowance.memory.acquire(ctx, r.conn.allowance.permits, own); err != nil {
			return err
		}
		r.permit.own += own
	}
	return r.permitShared(ctx, n)
}

func (r *Request) permitOwn(ctx context.Context, n int64) error {
	n = min(n, MaxAnswerBytes)
	if err := r.conn.allowance.permits.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	r.permit.own = n
	return nil
}

func (r *Request) permitSmall(ctx context.Context, n int64) error {
	switch {
	case r.conn.allowance.spare.TryAcquire(n):
		r.permit.spare = n
	case r.conn.allowance.memory.out.TryAcquire(n):
		r.permit.shared = n
	case r.conn.allowance.spare.Acquire(ctx, n) == nil:
		r.permit.spare = n
	default:
		return context.Cause(ctx)
	}
	return nil
}

func (r *Request) permitShared(ctx context.Context, n int64) error {
	if err := r.conn.allowance.memory.acquire(ctx, r.conn.allowance.memory.out, n); err != nil {
		return err
	}
	r.permit.shared += n
	return nil
}

// trim gives back the part of the permit that an answer of n bytes does not need.
func (r *Request) trim(n int64) {
	p := &r.permit
	if over := min(p.shared, p.size()-n); over > 0 {
		r.conn.allowance.memory.out.Release(over)
		p.shared -= over
	}
	if over := p.size() - n; over > 0 {
		r.conn.allowance.spare.Release(over)
		p.spare -= over
	}
	if over := p.own - n; over > 0 {
		r.conn.allowance.permits.Release(over)
		p.own -= over
	}
}
