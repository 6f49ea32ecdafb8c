package outlog

import (
	"sort"
	"time"
)

// admitLocked waits until output of the given cost may be added. It gives up
// the lock while it waits or writes to the spool. What has begun before a cut,
// or waits here when it comes, is let through.
func (l *Log) admitLocked(cost int64, begun bool) error {
	if l.cut && !begun && !l.ended {
		return ErrCut
	}
	blocked := false
	for {
		switch {
		case l.ended:
			return ErrEnded
		case l.closeSeq != 0:
			return ErrCut
		case l.cut:
			return nil
		}
		var full, spoolFull bool
		switch {
		case l.unsent+cost > l.limit && l.unsent > 0:
			full = true
		case l.memory+cost <= memoryLimit:
			return nil
		case l.spooling:
			// another stream's Append is at it
		case l.spoolOldestLocked():
			continue
		default:
			full, spoolFull = true, true
		}
		if full && !blocked {
			blocked = true
			l.blocked++
			defer func() { l.blocked-- }()
		}
		l.waitForRoomLocked(spoolFull)
	}
}

// waitForRoomLocked returns when this log has more room or, for one who waits
// for the spool, when that may have.
func (l *Log) waitForRoomLocked(spoolFull bool) {
	if l.room == nil {
		l.room = make(chan struct{})
	}
	room := l.room
	l.mu.Unlock()
	defer l.mu.Lock()
	if !spoolFull {
		<-room
		return
	}
	retry := time.NewTimer(retrySpool)
	defer retry.Stop()
	select {
	case <-room:
	case <-l.poked:
	case <-retry.C:
	}
}

// roomLocked lets those who wait for room look again.
func (l *Log) roomLocked() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// poke tells an Append that waits for the spool to try again. It takes no lock.
func (l *Log) poke() {
	select {
	case l.poked <- struct{}{}:
	default:
	}
}

// spoolOldestLocked moves the oldest segment in memory to the spool. When that
// fails, it forgets the oldest segment of all if that was sent. It reports
// whether it did either, and gives up the lock meanwhile.
func (l *Log) spoolOldestLocked() bool {
	// It is not the last one, which grows: memory holds several when it is full.
	s := l.segments[sort.Search(len(l.segments), func(i int) bool { return l.segments[i].content != nil })]
	content := s.content
	content.readers++
	l.spooling = true
	l.mu.Unlock()
	block, err := l.store(content)
	l.mu.Lock()
	l.spooling = false
	content.unpin()

	progress := true
	switch {
	case l.ended:
		l.leaveLocked(block, err)
	case l.segments[0].first > s.first: // forgotten meanwhile
		if err == nil {
			l.freeBlockLocked(block)
		}
	case err == nil:
		s.block, s.content = block, nil
		l.memory -= s.cost
		content.retire()
	case l.segments[0].last() <= l.sent:
		l.dropLocked()
	default:
		progress = false
	}
	if progress { // else nobody else would get further either
		l.offerLocked()
		l.roomLocked()
	}
	return progress
}

// leaveLocked undoes what store did while the log ended.
func (l *Log) leaveLocked(block int64, err error) {
	if err == nil {
		l.freeBlockLocked(block)
	}
	l.pool.leave(l)
	if l.spool != nil {
		l.closeSpool()
	}
}

// closeSpool is the last thing that happens to a log that has ended.
func (l *Log) closeSpool() {
	l.spool.close()
	l.pool.occupy(-l.spool.disk)
}

// store writes a segment to the spool. Only one goroutine does so at a time.
func (l *Log) store(c *content) (block int64, err error) {
	if err := l.pool.take(l); err != nil {
		return 0, err
	}
	block, err = l.write(c.encode())
	if err != nil {
		l.pool.cancel()
	}
	return block, err
}

func (l *Log) write(b []byte) (block int64, err error) {
	sp := l.spool
	if sp == nil {
		if sp, err = openSpool(l.pool.dir); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	l.spool = sp
	block, grows := sp.next()
	if grows {
		l.pool.occupy(1)
	}
	l.mu.Unlock()
	if err = sp.write(block, b); err != nil {
		l.mu.Lock()
		sp.release(block)
		l.mu.Unlock()
	}
	return block, err
}

func (l *Log) freeBlockLocked(block int64) {
	l.spool.release(block)
	l.pool.give()
}

// trimSpool gives disk space back that the log does not need for now.
func (l *Log) trimSpool() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for sp := l.spool; sp != nil && !l.ended; {
		block, ok := sp.surplus()
		if !ok {
			return
		}
		l.mu.Unlock()
		sp.punch(block)
		l.mu.Lock()
		if !l.ended { // else all of it is given back at once
			sp.holes = append(sp.holes, block)
			sp.disk--
			l.pool.occupy(-1)
		}
	}
}

// dropLocked forgets the oldest segment.
func (l *Log) dropLocked() {
	s := l.segments[0]
	l.segments[0] = nil
	l.segments = l.segments[1:]
	l.dropped += int64(s.size)
	if s.last() <= l.sent {
		l.kept -= s.cost
	} else {
		l.unsent -= s.cost
	}
	if s.content == nil {
		l.freeBlockLocked(s.block)
		return
	}
	l.memory -= s.cost
	s.content.retire()
}

// evictSent forgets the oldest segment if it is spooled and was sent, so that
// another log can have its place.
func (l *Log) evictSent() {
	l.mu.Lock()
	evict := l.evictableLocked()
	if evict {
		l.dropLocked()
		l.offerLocked()
	}
	l.mu.Unlock()
	if evict {
		l.trimSpool()
	}
}

func (l *Log) evictableLocked() bool {
	return len(l.segments) > 0 && l.segments[0].content == nil && l.segments[0].last() <= l.sent
}

// offerLocked tells the pool when the answer to evictableLocked has changed.
func (l *Log) offerLocked() {
	if e := l.evictableLocked(); e != l.offered {
		l.offered = e
		l.pool.offer(l, e)
	}
}
