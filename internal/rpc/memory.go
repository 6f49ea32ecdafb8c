package rpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of all connections of a server together, and the room that each connection
// has besides, so that small requests never wait for another connection.
const (
	// MaxIncoming bounds the messages that are arriving and the requests that wait for
	// their answers, together.
	MaxIncoming = 3 * MaxMessage

	// MaxOutgoing bounds the answers that are being prepared or wait for their peers to
	// take them, together.
	MaxOutgoing = 3 * MaxMessage

	// smallMessage is the size up to which a message needs no room in MaxIncoming.
	smallMessage = 64 << 10

	// spareRequests is the total size of a connection's small unanswered requests,
	// with their answers, that need no room in MaxIncoming.
	spareRequests = 1 << 20

	// requestCost is the least room that a request takes in MaxIncoming: its answer
	// is often larger than itself.
	requestCost = 16 << 10

	// spareAnswers is the total size of a connection's answers that take no room in
	// MaxOutgoing. An answer up to this size never waits for another connection.
	spareAnswers = 2 << 20

	// roomTimeout is how long a message waits for room before it is refused, and how
	// long a message may take to arrive while others wait for room.
	roomTimeout = 10 * time.Second

	// maxEvictions is how many messages a waiting message may evict. It waits roomTimeout
	// before each eviction and once after the last: its connection is not read meanwhile.
	maxEvictions = 2
)

// ErrNoRoom means that the connections of a server together have reached MaxIncoming
// or MaxOutgoing.
var ErrNoRoom = errors.New("limit reached: the large messages of all clients of this server take too much memory; try again later")

// errRefused is returned by a Stream together with the beginning of a message that
// it has dropped because there was no room for it.
var errRefused = errors.New("no room for a message")

// headSize is how much of a dropped message is kept, to find its id and method.
const headSize = 4 << 10

// A Memory limits the memory that the messages of all connections of one server hold.
// A message that finds no room waits, and its socket is not read meanwhile
// (back-pressure). After roomTimeout it evicts a message that does not finish
// arriving, or is refused.
//
// To exclude a deadlock, an answer that holds room in MaxOutgoing never waits for
// room in MaxIncoming.
type Memory struct {
	in, out           *semaphore.Weighted // bytes
	inLimit, outLimit int64               // the sizes of in and out
	timeout           time.Duration

	mu       sync.Mutex
	arriving []*arrival // those that hold room, oldest first
}

// NewMemory returns the memory of one server.
func NewMemory() *Memory { return newMemory(MaxIncoming, MaxOutgoing) }

func newMemory(in, out int64) *Memory {
	return &Memory{
		in: semaphore.NewWeighted(in), out: semaphore.NewWeighted(out), inLimit: in, outLimit: out, timeout: roomTimeout,
	}
}

// TryBuffer takes room for a buffer of n bytes of outgoing data, if there is room.
// FreeBuffer gives it back.
func (m *Memory) TryBuffer(n int64) bool { return m.out.TryAcquire(n) }

// FreeBuffer gives back what TryBuffer took.
func (m *Memory) FreeBuffer(n int64) { m.out.Release(n) }

// acquire takes room, and waits for it for up to m.timeout.
func (m *Memory) acquire(ctx context.Context, room *semaphore.Weighted, n int64) error {
	if room.TryAcquire(n) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	switch err := room.Acquire(limited, n); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return ErrNoRoom
}

// An arrival is the room for the message that the reader of a connection is receiving. A
// nil arrival has no limit.
type arrival struct {
	memory *Memory
	ctx    context.Context // of the connection
	held   int64           // only used by the reader

	// interrupt makes the reader return from waiting for bytes with an error, restore
	// lets it read again. Both are nil if that is not possible.
	interrupt, restore func()

	waiting func(bool) // called when the reader begins (true) and ends (false) to wait for room; may be nil

	// Guarded by memory.
	since   time.Time          // when it began to hold room
	evicted bool               // it has to give its room to other messages
	cancel  context.CancelFunc // ends the reader's wait for more room; nil: it does not wait
}

// reserve makes sure that there is room for a message of size bytes. errRefused means
// that there is none, or that the message has to make room for others.
func (a *arrival) reserve(size int) error {
	if a == nil {
		return nil
	}
	more := int64(size) - a.held
	if size <= smallMessage || more <= 0 {
		return nil
	}
	if !a.memory.in.TryAcquire(more) {
		if err := a.await(more); err != nil {
			return err
		}
	}
	if a.held == 0 {
		a.memory.begin(a)
	}
	a.held += more
	return nil
}

// await waits for room. After m.timeout it evicts the message that has been arriving for
// longest and waits again, because the freed room goes first to messages that have waited
// longer.
func (a *arrival) await(n int64) error {
	if a.waiting != nil {
		a.waiting(true)
		defer a.waiting(false)
	}
	m := a.memory
	for evictions := 0; ; evictions++ {
		ctx, cancel := context.WithTimeout(a.ctx, m.timeout)
		if !m.waits(a, cancel) {
			cancel()
			return errRefused
		}
		err := m.in.Acquire(ctx, n)
		cancel()
		evicted := !m.waits(a, nil)
		switch {
		case err == nil && !evicted:
			return nil
		case err == nil:
			m.in.Release(n)
			return errRefused
		case a.ctx.Err() != nil:
			return context.Cause(a.ctx)
		case evicted || evictions == maxEvictions || !m.evictOldest(a):
			return errRefused
		}
	}
}

// begin notes that a message holds room from now on.
func (m *Memory) begin(a *arrival) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.since = time.Now()
	m.arriving = append(m.arriving, a)
}

// waits notes the function that ends a message's wait for room; nil means that it
// does not wait. It reports false if the message was evicted.
func (m *Memory) waits(a *arrival, cancel context.CancelFunc) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.cancel = cancel
	return !a.evicted
}

// evictOldest tells the reader of the message that has been arriving for longest to drop
// it, if it has been arriving for longer than m.timeout. It reports whether there is such
// a message.
func (m *Memory) evictOldest(except *arrival) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.arriving {
		if a == except || a.evicted || a.interrupt == nil || time.Since(a.since) < m.timeout {
			continue
		}
		a.evicted = true
		if a.cancel != nil {
			a.cancel()
		} else {
			a.interrupt()
		}
		return true
	}
	return false
}

// wasEvicted reports whether the reader was told to drop its message.
func (a *arrival) wasEvicted() bool {
	if a == nil {
		return false
	}
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	return a.evicted
}

// take ends the arrival of a message and hands its room to the caller. ok is false if
// the message was evicted meanwhile.
func (a *arrival) take() (held int64, ok bool) {
	m := a.memory
	held, a.held = a.held, 0
	if held == 0 {
		return 0, true
	}
	m.mu.Lock()
	m.arriving = slices.DeleteFunc(m.arriving, func(b *arrival) bool { return b == a })
	evicted := a.evicted
	a.evicted, a.cancel = false, nil
	m.mu.Unlock()
	if evicted {
		a.restore()
		m.in.Release(held)
		return 0, false
	}
	return held, true
}

// drop gives back the room of a message that is not kept.
func (a *arrival) drop() {
	if a == nil {
		return
	}
	if held, ok := a.take(); ok {
		a.memory.in.Release(held)
	}
}
