package outlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// State describes a process after a given entry.
type State struct {
	Next     uint64 // number of the entry that follows
	Exited   bool
	ExitCode int
	Closed   bool
}

// State returns the current state.
func (l *Log) State() State {
	l.lock()
	defer l.mu.Unlock()
	return l.history.state(l.history.next)
}

// StateAt returns the state as it was before the entry with number next.
func (l *Log) StateAt(next uint64) State {
	l.lock()
	defer l.mu.Unlock()
	return l.history.state(min(next, l.history.next))
}

// Stats are figures about a log, for lists. Costs include EntryOverhead.
type Stats struct {
	First, Next   uint64 // oldest kept number, next number
	Sent          uint64 // newest number that a connection was sent
	Released      uint64 // up to here entries may be forgotten
	Held          int64  // cost of all entries that are kept
	Unsent        int64  // the unreleased part of Held (to a segment's precision)
	Spooled       int64  // the part of Held that is not in memory
	Dropped       int64  // bytes of output that were dropped, without EntryOverhead
	Blocked       bool   // an Append waits, so the process will too
	LastEntryTime time.Time
}

// Output is how many bytes of output there were.
func (s Stats) Output() int64 {
	return s.Dropped + s.Held - int64(s.Next-s.First)*EntryOverhead
}

// Stats returns the current figures.
func (l *Log) Stats() Stats {
	l.lock()
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

// Ready reports whether a reader after the entry with number after has something to
// read: there is output after it, or an exit that it has not seen, or the log is
// closed or has ended. OnAppend says when to ask again.
func (l *Log) Ready(after uint64) bool {
	l.lock()
	defer l.mu.Unlock()
	return l.ended || l.history.closeSeq != 0 || l.history.next-1 > after
}

// Pending counts the entries after number after and their bytes. If they are not
// all in the newest segment, bytes is a very large number.
func (l *Log) Pending(after uint64) (entries uint64, bytes int) {
	l.lock()
	defer l.mu.Unlock()
	if l.ended {
		return 0, 0
	}
	return l.history.pending(after)
}

// OutputAfter counts the bytes of output that are kept after the entry with number
// after. If after is in a spooled segment, the whole segment counts.
func (l *Log) OutputAfter(after uint64) (bytes int64) {
	l.lock()
	defer l.mu.Unlock()
	return l.history.outputAfter(after)
}

// A Cursor is a position in a log. It pins nothing: released entries may be dropped
// before it reaches them. One goroutine at a time uses a cursor.
type Cursor struct {
	log *Log
	seq uint64 // number of the last visited entry

	spooled *segment // the spooled segment of the fields below
	records []record
	ahead   []byte // bytes read ahead
	aheadAt int    // their position in the segment
}

// readAhead is how many bytes a cursor reads at once from the spool, so that short
// entries do not cost a system call each. A cursor keeps this memory until it has
// caught up.
const readAhead = 8 << 10

// Cursor returns a cursor after the entry with number after.
func (l *Log) Cursor(after uint64) *Cursor { return &Cursor{log: l, seq: after} }

// Seq is the number of the entry that was visited last.
func (c *Cursor) Seq() uint64 { return c.seq }

// Seek moves the cursor to after the entry with number after.
func (c *Cursor) Seek(after uint64) { c.seq = after }

// ErrNone means that there is no further entry yet.
var ErrNone = errors.New("no further entry yet")

// Next passes the next entry to visit and moves past it. It never waits: it returns
// ErrNone if there is no entry yet, io.EOF if there will be none, ErrEvicted if the
// entry was dropped.
func (c *Cursor) Next(visit func(Entry)) error {
	var p place
	err := c.find(&p)
	switch {
	case err != nil:
		return err
	case p.content == nil:
		err = c.visitSpooled(p.segment, p.spool, visit)
	default:
		c.spooled, c.records, c.ahead = nil, nil, nil
		visit(p.record.entry(c.seq+1, p.data))
		c.log.unpin(p.content)
	}
	if err == nil {
		c.seq++
	}
	return err
}

// A place is where an entry is: in a segment on disk, or in memory.
type place struct {
	segment *segment
	spool   *spool
	content *content // nil: on disk
	record  record   // in memory
	data    []byte   // in memory
}

// find finds the place of the next entry. If that is in memory, find makes the entry
// final and pins its content.
func (c *Cursor) find(p *place) error {
	l, seq := c.log, c.seq+1
	l.lock()
	defer l.mu.Unlock()
	if l.ended {
		return ErrEnded
	}
	s, err := l.history.seek(c.seq)
	if err != nil {
		return err
	}
	p.segment, p.spool, p.content = s, l.overflow.spool, s.content
	if s.content == nil {
		return nil
	}
	l.history.seal(seq)
	i := int(seq - s.first)
	start, end := span(s.content.records, i)
	s.content.readers++
	p.record, p.data = s.content.records[i], s.content.data[start:end:end]
	return nil
}

func (l *Log) unpin(c *content) {
	l.lock()
	defer l.mu.Unlock()
	c.unpin()
}

// visitSpooled reads an entry of a spooled segment and passes it to visit. If the block is
// reused meanwhile, which only happens to released entries, the bytes are discarded.
func (c *Cursor) visitSpooled(s *segment, sp *spool, visit func(Entry)) error {
	l := c.log
	if err := c.openSpooled(s, sp); err != nil {
		return err
	}
	scratch := takeContent()
	defer giveContent(scratch)
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
	visit(c.records[i].entry(c.seq+1, data))
	return nil
}

// openSpooled reads the records of a spooled segment, unless the cursor has them.
func (c *Cursor) openSpooled(s *segment, sp *spool) error {
	if c.spooled == s {
		return nil
	}
	scratch := takeContent()
	defer giveContent(scratch)
	c.spooled, c.ahead = nil, c.ahead[:0]
	b := scratch.data[:s.count*recordSize]
	if err := c.read(sp, s.block, s.size, b); err != nil { // the records follow the bytes
		return err
	}
	if err := c.log.stillHolds(s); err != nil {
		return err
	}
	c.records, c.spooled = decodeRecords(c.records[:0], b), s
	return nil
}

// load returns bytes of a spooled segment. More than readAhead bytes are read into
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

// stillHolds returns an error that says why a segment is gone; nil if it is not.
func (l *Log) stillHolds(s *segment) error {
	l.lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return ErrEnded
	case !l.history.holds(s):
		return ErrEvicted
	}
	return nil
}

// read reads from the spool. If the file was closed meanwhile, the log has ended.
func (c *Cursor) read(sp *spool, block int64, offset int, b []byte) error {
	err := sp.read(block, offset, b)
	switch {
	case errors.Is(err, os.ErrClosed):
		return ErrEnded
	case errors.Is(err, io.EOF): // the end of the file is not the end of the log
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	return nil
}
