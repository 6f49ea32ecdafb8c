package outlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// State is what is known of a process after a given entry.
type State struct {
	Next     uint64 // number of the entry that follows
	Exited   bool
	ExitCode int
	Closed   bool
}

// State returns the present state.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history.state(l.history.next)
}

// StateAt returns the state as it was before the entry with number next.
func (l *Log) StateAt(next uint64) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history.state(min(next, l.history.next))
}

// Stats is for people who ask what a log holds. Costs include EntryOverhead.
type Stats struct {
	First, Next   uint64 // oldest kept number, number to come
	Sent          uint64 // newest number that a connection was sent
	Released      uint64 // up to here entries may be forgotten
	Held          int64  // cost of all that is kept
	Unsent        int64  // of it, not released yet (to a segment's precision)
	Spooled       int64  // of it, not in memory
	Dropped       int64  // bytes of output that are no longer kept, without EntryOverhead
	Blocked       bool   // the process is held back
	LastEntryTime time.Time
}

// Stats returns the present figures.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &l.history
	held := h.cost.kept + h.cost.unsent
	s := Stats{First: h.next, Next: h.next, Sent: l.delivery.sent, Released: h.released, Held: held, Unsent: h.cost.unsent,
		Spooled: held - h.cost.memory, Dropped: h.cost.dropped, Blocked: l.room.blocked > 0}
	if len(h.segments) > 0 {
		s.First = h.segments[0].first
		s.LastEntryTime = h.lastAt
	}
	return s
}

// Ready reports whether a reader behind the entry with number after has something
// to learn: there is output after it, or the process has exited and that is news,
// or it has closed, or the log has ended. OnAppend tells when it is worth asking.
func (l *Log) Ready(after uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended || l.history.closeSeq != 0 || l.history.next-1 > after
}

// Pending counts the entries behind number after and their bytes. If they are so
// many that they are not all in the newest segment, any large number will do.
func (l *Log) Pending(after uint64) (entries uint64, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return 0, 0
	}
	return l.history.pending(after)
}

// OutputAfter counts the bytes of output that are kept behind the entry with number
// after. Where after lies in a spooled segment, the whole segment counts.
func (l *Log) OutputAfter(after uint64) (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history.outputAfter(after)
}

// A Cursor is a position in a log. It holds nothing back: entries that were released
// may be forgotten before it reaches them. A cursor is used by one goroutine at a time.
type Cursor struct {
	log *Log
	seq uint64 // newest number that was visited

	spooled *segment // the spooled segment that the rest belongs to
	records []record
	ahead   []byte // bytes read ahead
	aheadAt int    // where in the segment they lie
}

// readAhead is what a cursor reads at once from the spool, so that short entries
// do not cost a system call each. It stays with a cursor that has not caught up.
const readAhead = 8 << 10

// Cursor returns a cursor behind the entry with number after.
func (l *Log) Cursor(after uint64) *Cursor { return &Cursor{log: l, seq: after} }

// Seq is the number of the entry that was visited last.
func (c *Cursor) Seq() uint64 { return c.seq }

// Seek moves the cursor behind the entry with number after.
func (c *Cursor) Seek(after uint64) { c.seq = after }

// ErrNone means that there is no further entry yet.
var ErrNone = errors.New("no further entry yet")

// Next shows visit the entry that follows and moves behind it. It never waits
// for one: it returns ErrNone if there is none yet, io.EOF if there will be
// none, ErrEvicted if the entry was forgotten.
func (c *Cursor) Next(visit func(Entry)) error {
	l := c.log
	l.mu.Lock()
	s, err := l.seekLocked(c.seq)
	switch {
	case err != nil:
		l.mu.Unlock()
	case s.content == nil:
		err = c.visitSpooledLocked(s, visit)
	default:
		c.visitLocked(s, visit)
	}
	if err == nil {
		c.seq++
	}
	return err
}

func (l *Log) seekLocked(after uint64) (*segment, error) {
	if l.ended {
		return nil, ErrEnded
	}
	return l.history.seek(after)
}

// visitLocked shows an entry of a segment in memory and makes it final. It gives
// up the lock for good.
func (c *Cursor) visitLocked(s *segment, visit func(Entry)) {
	l, seq, content := c.log, c.seq+1, s.content
	i := int(seq - s.first)
	r := content.records[i]
	start, end := span(content.records, i)
	data := content.data[start:end:end]
	content.readers++
	l.history.sealed = max(l.history.sealed, seq)
	l.mu.Unlock()

	c.spooled, c.records, c.ahead = nil, nil, nil
	visit(r.entry(seq, data))

	l.mu.Lock()
	content.unpin()
	l.mu.Unlock()
}

// visitSpooledLocked reads an entry of a spooled segment and shows it. It gives
// up the lock for good. If the block is reused meanwhile, which only happens to
// entries that were released, what was read is thrown away.
func (c *Cursor) visitSpooledLocked(s *segment, visit func(Entry)) error {
	l, sp := c.log, c.log.overflow.spool
	l.mu.Unlock()
	scratch := takeContent()
	defer giveContent(scratch)

	if c.spooled != s {
		c.spooled, c.ahead = nil, c.ahead[:0]
		b := scratch.data[:s.count*recordSize]
		if err := c.read(sp, s.block, s.size, b); err != nil {
			return err
		}
		c.records = decodeRecords(c.records[:0], b)
	}
	i := int(c.seq + 1 - s.first)
	start, end := span(c.records, i)
	if start > end || end > s.size {
		return ErrEvicted
	}
	data, err := c.load(sp, s, start, end, scratch.data)
	if err != nil {
		c.spooled = nil
		return err
	}
	if err := l.stillHolds(s); err != nil {
		return err
	}
	c.spooled = s
	visit(c.records[i].entry(c.seq+1, data))
	return nil
}

// load returns bytes of a spooled segment. If they are many, it puts them into
// scratch.
func (c *Cursor) load(sp *spool, s *segment, start, end int, scratch []byte) ([]byte, error) {
	if end-start > readAhead {
		data := scratch[:end-start]
		return data, c.read(sp, s.block, start, data)
	}
	if start < c.aheadAt || end > c.aheadAt+len(c.ahead) {
		c.aheadAt = start
		c.ahead = slices.Grow(c.ahead[:0], readAhead)[:min(readAhead, s.size-start)]
		if err := c.read(sp, s.block, start, c.ahead); err != nil {
			return nil, err
		}
	}
	return c.ahead[start-c.aheadAt : end-c.aheadAt], nil
}

// stillHolds returns why a segment is gone.
func (l *Log) stillHolds(s *segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return ErrEnded
	case !l.history.holds(s):
		return ErrEvicted
	}
	return nil
}

// read reads from the spool; that the file was closed under it means that the
// log has ended.
func (c *Cursor) read(sp *spool, block int64, offset int, b []byte) error {
	err := sp.read(block, offset, b)
	switch {
	case errors.Is(err, os.ErrClosed):
		return ErrEnded
	case errors.Is(err, io.EOF): // of the file, which is not that of the log
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	return nil
}
