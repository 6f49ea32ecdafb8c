package outlog

import (
	"time"

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
	// case the disk has space now.
	retrySpool = 250 * time.Millisecond
)

// A room makes an Append wait until its log has room.
type room struct {
	poked   wake.Signal   // the pool may have a block again
	opened  chan struct{} // closed when there may be room; nil while no Append waits
	blocked int           // how many Appends wait because the log or the spool is full
	cut     bool          // output is no longer taken
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

// admitLocked waits until output of the given cost may be added. It releases the
// lock while it waits or writes to the spool. An Append that began before a cut, or
// waits here at that moment, is admitted.
func (l *Log) admitLocked(cost int64, begun bool) error {
	if l.room.cut && !begun && !l.ended {
		return ErrCut
	}
	blocked := false
	for {
		switch {
		case l.ended:
			return ErrEnded
		case l.history.closeSeq != 0:
			return ErrCut
		case l.room.cut:
			return nil
		}
		var full, spoolFull bool
		switch unsent := l.history.cost.unsent; {
		case unsent+cost > l.limit && unsent > 0:
			full = true
		case l.history.cost.memory+cost <= memoryLimit:
			return nil
		case l.overflow.moving:
			// the Append of the other stream is moving a segment
		case l.spoolOldestLocked():
			continue
		default:
			full, spoolFull = true, true
		}
		if full && !blocked {
			blocked = true
			l.room.blocked++
			defer func() { l.room.blocked-- }()
		}
		l.waitForRoomLocked(spoolFull)
	}
}

// waitForRoomLocked returns when this log may have more room or, if the spool is full,
// when the spool may have.
func (l *Log) waitForRoomLocked(spoolFull bool) {
	r := &l.room
	if r.opened == nil {
		r.opened = make(chan struct{})
	}
	opened := r.opened
	l.mu.Unlock()
	defer l.mu.Lock()
	if !spoolFull {
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
}
