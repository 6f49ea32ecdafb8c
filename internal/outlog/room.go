package outlog

import (
	"errors"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/wake"
)

const (
	// memoryCost is the newest part of a log that stays in memory. A process may
	// always hold that much unsent output, whatever other processes hold.
	memoryCost = 1 << 20

	// memoryLimit is where the oldest segment has to leave memory. It includes one
	// more segment, because a segment that was sent in part leaves as a whole or
	// not at all.
	memoryLimit = memoryCost + segmentCost

	// retrySpool is how long Append waits before it tries a full spool again, in
	// case the disk has space now, or an arena without memory.
	retrySpool = 250 * time.Millisecond
)

// A room makes an Append wait until its log has room.
type room struct {
	poked   wake.Signal   // the pool may have a block again
	opened  chan struct{} // closed when there may be room; nil while no Append waits
	blocked int           // how many Appends wait because the log or the spool is full
	cut     bool          // output is no longer taken

	since  time.Time     // since when blocked is not 0
	before time.Duration // for how long it was not 0 before that
}

// blockLocked notes that one more Append waits because the log or the spool is full.
func (l *Log) blockLocked() {
	r := &l.room
	if r.blocked++; r.blocked > 1 {
		return
	}
	r.since = time.Now()
	if slot := l.history.slot; slot != nil {
		slot.Usage.BlockedSince.Store(uint64(r.since.UnixNano()), pointBlocked)
	}
}

// unblockLocked notes that one of them does not wait any more.
func (l *Log) unblockLocked() {
	r := &l.room
	if r.blocked--; r.blocked > 0 {
		return
	}
	r.before += time.Since(r.since)
	if slot := l.history.slot; slot != nil {
		slot.Usage.BlockedSince.Store(0, pointBlocked)
		slot.Usage.BlockedBefore.Store(uint64(r.before), pointBlocked)
	}
}

// BlockedFor is for how long, in all, output was not taken because the log or the spool was full.
func (l *Log) BlockedFor() time.Duration {
	l.lock()
	defer l.mu.Unlock()
	if l.room.blocked == 0 {
		return l.room.before
	}
	return l.room.before + time.Since(l.room.since)
}

// blockedBefore is for how long the output of a slot was not taken by earlier processes. If the last of them has died
// while the log was full, the command has waited since.
func blockedBefore(slot *arena.Slot) time.Duration {
	w := &slot.Usage
	if w.Begun.Load() != slot.Serial.Load() {
		return 0
	}
	before := time.Duration(w.BlockedBefore.Load())
	if since := w.BlockedSince.Load(); since != 0 {
		before += max(0, time.Since(time.Unix(0, int64(since))))
		w.BlockedSince.Store(0, pointBlocked)
		w.BlockedBefore.Store(uint64(before), pointBlocked)
	}
	return before
}

// open makes the waiting Appends check again.
func (r *room) open() {
	if r.opened != nil {
		close(r.opened)
		r.opened = nil
	}
}

// poke makes an Append that waits for the spool try again. It takes no lock.
func (r *room) poke() { r.poked.Send() }

// A demand is the output of a stream for which an Append or a Fill needs room.
type demand struct {
	stream      Stream
	least, most int  // bytes
	begun       bool // it began before a cut, if there was one

	// idle, if not nil, is called before the caller has to wait: the error, if any, says that
	// there is no output to wait with.
	idle func() error
}

// admitLocked waits until there is room for the output. It returns for how much of it, and
// the current time. It releases the lock while it waits or writes to the spool. An Append
// that began before a cut, or waits here at that moment, is admitted.
func (l *Log) admitLocked(d demand) (room int, now time.Time, err error) {
	if l.room.cut && !d.begun && !l.ended {
		return 0, now, ErrCut
	}
	for blocked := false; ; {
		l.awaitTakenLocked() // no output can be added meanwhile
		switch {
		case l.ended:
			return 0, now, ErrEnded
		case l.history.closeSeq != 0:
			return 0, now, ErrCut
		}
		most := l.allowedLocked(d)
		if most > 0 {
			now = time.Now()
			if room, err := l.history.room(d.stream, d.least, most, now); err == nil {
				return room, now, nil
			}
		}
		if d.idle != nil {
			if err := d.idle(); err != nil {
				return 0, now, err
			}
		}
		var full, retry bool
		switch {
		case most > 0:
			full, retry = true, true // the arena has no memory now
		case l.fullLocked(d):
			full = true
		case l.overflow.moving:
			// the Append of the other stream is moving a segment
		case l.spoolOldestLocked():
			continue
		default:
			full, retry = true, true
		}
		if full && !blocked {
			blocked = true
			l.blockLocked()
			defer l.unblockLocked()
		}
		l.waitForRoomLocked(retry)
	}
}

// awaitMemoryLocked waits a moment because the system has no memory for the arena.
func (l *Log) awaitMemoryLocked() {
	l.blockLocked()
	l.waitForRoomLocked(true)
	l.unblockLocked()
}

// noMemory reports whether an error of the arena is a lack of memory, which may end.
func noMemory(err error) bool {
	return errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOSPC)
}

// allowedLocked is how much of the output the log may take now; 0: less than the least.
func (l *Log) allowedLocked(d demand) int {
	h := &l.history
	if l.room.cut {
		return d.most
	}
	left := memoryLimit - h.cost.memory - EntryOverhead
	if h.cost.unsent > 0 {
		left = min(left, l.limit-h.cost.unsent-EntryOverhead)
	}
	if left < int64(d.least) {
		return 0
	}
	return min(d.most, int(left))
}

// fullLocked reports whether too much is unreleased.
func (l *Log) fullLocked(d demand) bool {
	unsent := l.history.cost.unsent
	return unsent > 0 && unsent+int64(d.least)+EntryOverhead > l.limit
}

// waitForRoomLocked returns when this log may have more room or, with retry, when the spool or the arena may have.
func (l *Log) waitForRoomLocked(retryLater bool) {
	r := &l.room
	if r.opened == nil {
		r.opened = make(chan struct{})
	}
	opened := r.opened
	l.unlocked(func() {
		if !retryLater {
			<-opened
			return
		}
		retry := time.NewTimer(retrySpool)
		defer retry.Stop()
		select {
		case <-opened:
		case <-r.poked:
		case <-retry.C:
		}
	})
}
