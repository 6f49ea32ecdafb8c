package session

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// rememberedWrites is how many ids of writes and other actions are kept per
// process.
const rememberedWrites = 4096

const (
	// maxPendingWrites limits the bytes of writes that wait for the process to read:
	// they stay when the connection that sent them has ended. One write of the
	// largest size always fits.
	maxPendingWrites = 64 << 20

	// pendingWriteCost is the cost of a pending write besides its bytes.
	pendingWriteCost = 1 << 10

	// maxRepeats is how many repeats of one write may wait with it. Some may be
	// from connections that have ended: one more repeat removes the oldest.
	maxRepeats = 16
)

// writes makes each write and each other action with an id take effect once.
//
// The newest ids are remembered with a digest of their bytes. For a client that
// numbers its writes 1, 2, 3, … repeats are recognised for ever: a number that is
// not above the last one was written before.
type writes struct {
	mu    sync.Mutex
	byID  map[writeKey]*write
	order []writeKey // of byID, oldest first
	bytes int        // cost of the writes that have not finished

	counting bool   // all ids so far were 1, 2, 3, …
	last     uint64 // the newest of these numbers
}

// A writeKey identifies a write or another action. Ids of writes and of other
// actions are independent.
type writeKey struct {
	id     string // shortened
	action bool
}

// A write is a write or another action that was accepted, or is about to be.
type write struct {
	digest  [sha256.Size]byte
	settled bool
	waiting []func(error) // repeats that wait for its outcome
}

// do passes data to send, unless that was done for the same id before. done gets
// the outcome. A failed write is forgotten and may be tried again.
func (w *writes) do(id string, data []byte, send func([]byte, func(error)), done func(error)) {
	key, digest := writeKey{id: shorten(id)}, sha256.Sum256(data)
	w.mu.Lock()
	if w.repeatedLocked(key, id, digest, done) {
		return
	}
	if w.countedLocked(key.id) {
		w.mu.Unlock()
		done(nil)
		return
	}
	cost := len(data) + pendingWriteCost
	if w.bytes > 0 && w.bytes+cost > maxPendingWrites {
		w.mu.Unlock()
		done(limitReached(maxPendingWrites, "bytes that wait to be read by the process"))
		return
	}
	w.bytes += cost
	this := w.beginLocked(key, digest)
	w.mu.Unlock()

	send(data, func(err error) { w.settle(key, this, cost, err, done) })
}

// once runs act, unless that was done for the same id before. what names the
// action: if the id was used for another action, it is refused. A failed action is
// forgotten and may be tried again. A repeat waits for the first call, which must
// not take long.
func (w *writes) once(id, what string, act func() error) error {
	key, digest := writeKey{shorten(id), true}, sha256.Sum256([]byte(what))
	result := make(chan error, 1)
	done := func(err error) { result <- err }
	w.mu.Lock()
	if !w.repeatedLocked(key, id, digest, done) {
		this := w.beginLocked(key, digest)
		w.mu.Unlock()
		w.settle(key, this, 0, act(), done) // without the lock: act may settle writes
	}
	return <-result
}

// repeatedLocked reports whether key, the short form of id, is known. If so, it
// unlocks and arranges that done is called.
func (w *writes) repeatedLocked(key writeKey, id string, digest [sha256.Size]byte, done func(error)) bool {
	earlier := w.byID[key]
	switch {
	case earlier == nil:
		return false
	case earlier.digest != digest:
		w.mu.Unlock()
		if key.action {
			done(fmt.Errorf("onceId `%s` %w", id, ErrOnceReused))
		} else {
			done(fmt.Errorf("writeId `%s` %w", id, ErrWriteReused))
		}
	case earlier.settled:
		w.mu.Unlock()
		done(nil)
	default:
		var oldest func(error)
		if len(earlier.waiting) == maxRepeats {
			oldest = earlier.waiting[0]
			earlier.waiting = slices.Delete(earlier.waiting, 0, 1)
		}
		earlier.waiting = append(earlier.waiting, done)
		w.mu.Unlock()
		if oldest != nil {
			oldest(limitReached(maxRepeats, "repeats of a write that waits"))
		}
	}
	return true
}

func (w *writes) beginLocked(key writeKey, digest [sha256.Size]byte) *write {
	if w.byID == nil {
		w.byID = map[writeKey]*write{}
	}
	this := &write{digest: digest}
	w.byID[key] = this
	return this
}

// settle records the outcome and reports it to all that wait for it.
func (w *writes) settle(key writeKey, this *write, cost int, err error, done func(error)) {
	w.mu.Lock()
	w.bytes -= cost
	this.settled = true
	repeats := this.waiting
	this.waiting = nil
	if err != nil {
		delete(w.byID, key)
	} else {
		w.acceptedLocked(key)
	}
	w.mu.Unlock()
	done(err)
	for _, repeat := range repeats {
		repeat(err)
	}
}

// countedLocked reports whether id is a number that a counting client has used.
func (w *writes) countedLocked(id string) bool {
	n, ok := counter(id)
	return ok && w.counting && n <= w.last
}

func (w *writes) acceptedLocked(key writeKey) {
	if !key.action {
		w.countLocked(key.id)
	}
	w.order = append(w.order, key)
	if len(w.order) > rememberedWrites {
		delete(w.byID, w.order[0])
		w.order = w.order[1:]
	}
}

// countLocked notes whether the client counts its writes.
func (w *writes) countLocked(id string) {
	n, ok := counter(id)
	w.counting = ok && (w.last == 0 && n == 1 || w.counting && n == w.last+1)
	if w.counting {
		w.last = n
	} else {
		w.last = max(w.last, 1) // later numbers do not count
	}
}

// shorten limits the memory that long ids take.
func shorten(id string) string {
	if len(id) <= sha256.Size {
		return id
	}
	digest := sha256.Sum256([]byte(id))
	return string(digest[:])
}

// counter returns the number whose plain decimal text is id.
func counter(id string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(id, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == id
}
