package session

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"sync"
)

// rememberedWrites is how many write ids of a process are kept.
const rememberedWrites = 4096

// maxPendingWrites bounds the bytes of writes that wait for the process to read:
// they stay when the connection that sent them is gone. One of the largest size
// always fits.
const maxPendingWrites = 64 << 20

// writes makes each write of a process happen once.
//
// The newest ids are remembered with a digest of their bytes. A client that
// numbers its writes 1, 2, 3, … is protected for ever: whatever is not above
// its last number was written before.
type writes struct {
	mu    sync.Mutex
	byID  map[string]*write // by shortened id
	order []string          // of byID, oldest first
	bytes int               // of the writes that are not settled

	counting bool   // all ids so far were 1, 2, 3, …
	last     uint64 // the newest of them
}

// A write was accepted, or is about to be.
type write struct {
	digest  [sha256.Size]byte
	settled bool
	waiting []func(error) // repeats that want to know how it ends
}

// do passes data to send unless that was done for the same id before. done
// learns how it went. A failed write is forgotten and may be tried again.
func (w *writes) do(id string, data []byte, send func([]byte, func(error)), done func(error)) {
	digest := sha256.Sum256(data)
	id, name := shorten(id), id
	w.mu.Lock()
	if earlier := w.byID[id]; earlier != nil {
		switch {
		case earlier.digest != digest:
			w.mu.Unlock()
			done(fmt.Errorf("writeId `%s` %w", name, ErrWriteReused))
		case earlier.settled:
			w.mu.Unlock()
			done(nil)
		default:
			earlier.waiting = append(earlier.waiting, done)
			w.mu.Unlock()
		}
		return
	}
	if w.countedLocked(id) {
		w.mu.Unlock()
		done(nil)
		return
	}
	if w.bytes > 0 && w.bytes+len(data) > maxPendingWrites {
		w.mu.Unlock()
		done(limitReached(maxPendingWrites, "bytes that wait to be read by the process"))
		return
	}
	w.bytes += len(data)
	this := &write{digest: digest}
	if w.byID == nil {
		w.byID = map[string]*write{}
	}
	w.byID[id] = this
	w.mu.Unlock()

	send(data, func(err error) {
		w.mu.Lock()
		w.bytes -= len(data)
		this.settled = true
		repeats := this.waiting
		this.waiting = nil
		if err != nil {
			delete(w.byID, id)
		} else {
			w.acceptedLocked(id)
		}
		w.mu.Unlock()
		done(err)
		for _, repeat := range repeats {
			repeat(err)
		}
	})
}

// countedLocked reports whether id is a number that a counting client has used.
func (w *writes) countedLocked(id string) bool {
	n, ok := counter(id)
	return ok && w.counting && n <= w.last
}

func (w *writes) acceptedLocked(id string) {
	n, ok := counter(id)
	first := len(w.order) == 0 && w.last == 0
	w.counting = ok && (first && n == 1 || w.counting && n == w.last+1)
	if w.counting {
		w.last = n
	} else {
		w.last = max(w.last, 1) // it will not begin to count later
	}
	w.order = append(w.order, id)
	if len(w.order) > rememberedWrites {
		delete(w.byID, w.order[0])
		w.order = w.order[1:]
	}
}

// shorten keeps ids that a client chose without measure from filling the memory.
func shorten(id string) string {
	if len(id) <= sha256.Size {
		return id
	}
	digest := sha256.Sum256([]byte(id))
	return string(digest[:])
}

// counter is the number that id is the plain decimal text of.
func counter(id string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(id, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == id
}
