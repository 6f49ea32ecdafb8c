package outlog

import (
	"fmt"
	"os"
)

// An overflow is the part of a log that is on disk.
type overflow struct {
	pool    *Pool                // never changes
	hold    func(*os.File) error // Config.HoldSpool
	serial  uint64               // of the slot of a log in an arena; 0: it is on the heap
	spool   *spool               // nil until it is needed; set by the Append that has set moving
	moving  bool                 // one Append is moving a segment to the spool
	offered bool                 // the pool knows that the oldest segment can be evicted
}

// freeBlock gives a block of the spool back.
func (o *overflow) freeBlock(block int64) {
	o.spool.release(block)
	o.pool.give()
}

// close releases the spool of a log that has ended. It is the last call.
func (o *overflow) close() {
	o.spool.close()
	o.pool.occupy(-o.spool.disk)
}

// spoolOldestLocked moves the oldest segment in memory to the spool. If that fails,
// it drops the oldest segment of all, if it is released. It reports whether it did
// either. It releases the lock meanwhile.
func (l *Log) spoolOldestLocked() bool {
	h := &l.history
	s := h.oldestInMemory()
	content := s.content
	content.readers++
	var block int64
	var err error
	l.overflow.moving = true
	l.unlocked(func() { block, err = l.store(s, content) })
	l.overflow.moving = false
	content.unpin()

	progress := true
	switch {
	case l.ended:
		l.leaveLocked(block, err)
	case !h.holds(s): // it was dropped meanwhile
		if err == nil {
			l.overflow.freeBlock(block)
		}
	case err == nil:
		h.spooled(s)
		s.block, s.content = block, nil
		h.cost.memory -= s.cost
		content.retire()
	case h.oldestReleased():
		l.dropLocked()
	default:
		progress = false
	}
	if progress { // without progress another Append would fail in the same way
		l.offerLocked()
		l.room.open()
	}
	return progress
}

// leaveLocked undoes store if the log has ended meanwhile.
func (l *Log) leaveLocked(block int64, err error) {
	if err == nil {
		l.overflow.freeBlock(block)
	}
	l.overflow.pool.leave(l)
	if l.overflow.spool != nil {
		l.overflow.close()
	}
}

// store writes a segment to the spool. Only one goroutine at a time calls it.
func (l *Log) store(s *segment, c *content) (block int64, err error) {
	if err := l.overflow.pool.take(l); err != nil {
		return 0, err
	}
	block, err = l.write(s, c)
	if err != nil {
		l.overflow.pool.cancel()
	}
	return block, err
}

func (l *Log) write(s *segment, c *content) (block int64, err error) {
	sp := l.overflow.spool
	if sp == nil {
		if sp, err = l.openSpool(); err != nil {
			return 0, err
		}
	}
	l.lock()
	l.overflow.spool = sp
	block, grows := sp.next()
	if grows {
		l.overflow.pool.occupy(1)
	}
	l.mu.Unlock()
	if err = l.writeBlock(sp, block, s, c); err != nil {
		l.lock()
		sp.release(block)
		l.mu.Unlock()
	}
	return block, err
}

// openSpool creates the spool file.
func (l *Log) openSpool() (*spool, error) {
	pool := l.overflow.pool
	sp, err := openSpool(pool.dir, pool.name(l.overflow.serial))
	if err != nil || l.overflow.hold == nil {
		return sp, err
	}
	if err := l.overflow.hold(sp.file); err != nil {
		sp.close()
		return nil, fmt.Errorf("pass the spool file on: %w", err)
	}
	return sp, nil
}

// writeBlock writes a segment to a block of the spool. For a log in an arena it marks
// the block as complete at last, for the process that finds it.
func (l *Log) writeBlock(sp *spool, block int64, s *segment, c *content) error {
	if err := sp.write(block, 0, c.data[:s.size]); err != nil {
		return err
	}
	scratch := takeContent()
	defer giveContent(scratch)
	if err := sp.write(block, s.size, appendRecords(scratch.data, c.records)); err != nil {
		return err
	}
	if l.overflow.serial == 0 {
		return nil
	}
	pointSpool.Passed()
	err := sp.mark(block, newMark(l.overflow.serial, s))
	pointMark.Passed()
	return err
}

// trimSpool gives back the disk space of free blocks, except for the given number.
func (l *Log) trimSpool(spare int) {
	l.lock()
	defer l.mu.Unlock()
	for sp := l.overflow.spool; sp != nil && !l.ended; {
		block, ok := sp.surplus(spare)
		if !ok {
			return
		}
		l.unlocked(func() { sp.punch(block) })
		if !l.ended { // otherwise all of it is given back at once
			sp.holes = append(sp.holes, block)
			sp.disk--
			l.overflow.pool.occupy(-1)
		}
	}
}

// dropLocked drops the oldest segment.
func (l *Log) dropLocked() {
	if !l.ended {
		l.history.forget() // before its memory is used again
	}
	if s := l.history.drop(); s.content == nil {
		l.overflow.freeBlock(s.block)
	} else {
		s.content.retire()
	}
}

// evictReleased drops the oldest segment if it is spooled and released, so that
// another log can use its block.
func (l *Log) evictReleased() {
	if l.evict() {
		l.trimSpool(scarceBlocks)
	}
}

func (l *Log) evict() bool {
	l.lock()
	defer l.mu.Unlock()
	if !l.evictableLocked() {
		return false
	}
	l.dropLocked()
	l.offerLocked()
	return true
}

func (l *Log) evictableLocked() bool {
	return l.history.oldestSpooled() && l.history.oldestReleased()
}

// offerLocked tells the pool when the result of evictableLocked has changed.
func (l *Log) offerLocked() {
	if e := l.evictableLocked(); e != l.overflow.offered {
		l.overflow.offered = e
		l.overflow.pool.offer(l, e)
	}
}
