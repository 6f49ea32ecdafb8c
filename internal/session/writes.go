package session

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/tetherexec/tether/internal/arena"
)

// rememberedWrites is how many writes and other actions of a process are remembered as
// done.
const rememberedWrites = 4096

const (
	// maxPendingWrites limits the cost of the writes of one process that wait for it
	// to read: they stay when the connection that sent them has ended. If no other
	// write waits, a write of any size fits.
	maxPendingWrites = 64 << 20

	// pendingWriteCost is the cost of a write that waits, in addition to its bytes.
	pendingWriteCost = 1 << 10

	// maxRepeats is how many repeats of one write may wait with it. Some may be
	// from connections that have ended: one more repeat removes the oldest.
	maxRepeats = 16
)

// writes makes each write and each other action with an id take effect once. The other
// actions are signals and the end of input.
//
// The newest ids are remembered with a digest of their bytes, to notice an id that is
// used again for other bytes. If a client numbers its writes 1, 2, 3, …, repeats are
// recognised for ever: a number that is not above the last one was written before.
//
// If the process has a slot, an id is recorded before its action takes effect, so that it is
// known after a restart of this program too.
type writes struct {
	record *slotRecord // nil: nothing is recorded

	mu    sync.Mutex
	byID  map[writeKey]*write // those that have not finished, and the newest that were done
	order []writeKey          // those of byID that were done, oldest first
	cost  int                 // of the writes that have not finished

	numbered bool   // the ids of the writes that were done were 1, 2, 3, …, in this order
	last     uint64 // the newest of these numbers; 0: no write was done
}

// A writeKey identifies a write or another action. Ids of writes and of other
// actions are independent.
type writeKey struct {
	id     string // shortened
	action bool
}

// A write is the record of one write or other action. If that fails, the record is
// removed.
type write struct {
	digest  [sha256.Size]byte
	note    *arena.Note   // where it is recorded; nil: nowhere, or not yet
	settled bool          // it has finished
	waiting []func(error) // repeats that wait for its outcome
}

// A sender is proc.Process.WriteNoted.
type sender func(data []byte, note func(ordinal uint64) error, done func(error))

// do passes data to send, unless that was done for the same id before. done gets
// the outcome. A failed write is forgotten and may be tried again.
func (w *writes) do(id string, data []byte, send sender, done func(error)) {
	key, digest := writeKey{id: shorten(id)}, sha256.Sum256(data)
	w.mu.Lock()
	if w.repeatedLocked(key, id, digest, done) {
		return
	}
	if w.oldNumberLocked(key.id) {
		w.mu.Unlock()
		done(nil)
		return
	}
	cost := len(data) + pendingWriteCost
	if w.cost > 0 && w.cost+cost > maxPendingWrites {
		w.mu.Unlock()
		done(limitReached(maxPendingWrites, "bytes that wait to be read by the process"))
		return
	}
	w.cost += cost
	this := w.beginLocked(key, digest)
	w.mu.Unlock()

	note := func(ordinal uint64) error { return w.recordDone(key, this, ordinal) }
	send(data, note, func(err error) { w.settle(key, this, cost, err, done) })
}

// recordDone records that a write or other action takes effect.
func (w *writes) recordDone(key writeKey, this *write, ordinal uint64) error {
	note, err := w.record.recordDone(key, this.digest, ordinal)
	w.mu.Lock()
	defer w.mu.Unlock()
	this.note = note
	return err
}

// once runs act, unless that was done for the same id before. what names the
// action: if the id was used for another action, this one is refused. A failed action
// is forgotten and may be tried again. A repeat waits for the first call, so act must
// not take long. act calls note with its ordinal, or with 0, when the action must not be repeated from then
// on, even if this program dies.
func (w *writes) once(id, what string, act func(note func(ordinal uint64) error) error) error {
	key, digest := writeKey{shorten(id), true}, sha256.Sum256([]byte(what))
	result := make(chan error, 1)
	done := func(err error) { result <- err }
	w.mu.Lock()
	if !w.repeatedLocked(key, id, digest, done) {
		this := w.beginLocked(key, digest)
		w.mu.Unlock()
		note := func(ordinal uint64) error { return w.recordDone(key, this, ordinal) }
		w.settle(key, this, 0, act(note), done) // without the lock: act may settle writes
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

// beginLocked records a write or other action that begins.
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
	w.cost -= cost
	this.settled = true
	repeats := this.waiting
	this.waiting = nil
	if err != nil {
		delete(w.byID, key)
	} else {
		w.rememberLocked(key)
	}
	w.mu.Unlock()
	done(err)
	for _, repeat := range repeats {
		repeat(err)
	}
}

// oldNumberLocked reports whether id is a number that a client which numbers its
// writes has used before.
func (w *writes) oldNumberLocked(id string) bool {
	n, ok := number(id)
	return ok && w.numbered && n <= w.last
}

// rememberLocked remembers that a write or other action was done, and forgets the
// oldest if there are too many.
func (w *writes) rememberLocked(key writeKey) {
	if !key.action {
		w.noteNumberLocked(key.id)
	}
	w.order = append(w.order, key)
	if len(w.order) > rememberedWrites {
		w.record.forget(w.byID[w.order[0]].note)
		delete(w.byID, w.order[0])
		w.order = w.order[1:]
	}
}

// restore remembers an action that was recorded by an earlier program. They come in the order in which
// they were recorded.
func (w *writes) restore(a recordedAction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[a.key] != nil {
		return
	}
	if n, ok := number(a.key.id); ok && !a.key.action && w.last == 0 && n == a.ordinal {
		w.numbered, w.last = n > 1, n-1 // the records of earlier writes were dropped
	}
	this := w.beginLocked(a.key, a.digest)
	this.settled, this.note = true, a.note
	w.rememberLocked(a.key)
}

// notes returns all notes about writes and other actions.
func (w *writes) notes() (notes []*arena.Note) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, this := range w.byID {
		notes = append(notes, this.note)
	}
	return notes
}

// noteNumberLocked notes whether the client still numbers its writes.
func (w *writes) noteNumberLocked(id string) {
	n, ok := number(id)
	w.numbered = ok && (w.last == 0 && n == 1 || w.numbered && n == w.last+1)
	if w.numbered {
		w.last = n
	} else {
		w.last = max(w.last, 1) // not 0: a later write with the id 1 is not the first
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

// number returns the number whose plain decimal text is id.
func number(id string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(id, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == id
}
