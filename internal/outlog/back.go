package outlog

import "errors"

// SeekBack moves the cursor to before the newest entries that precede the entry with number before: as many of them as
// cost no more than cost together, but at least one. It stops at the oldest entry that is kept. If no entry before the given one is kept, it moves the
// cursor to directly before that one. It makes the entries final, as a cursor that reads them would.
//
// It goes back by the figures of segments, and reads from the spool only the records of the two segments in which the way begins
// and ends. So it takes as long in a large log as in a small one.
func (c *Cursor) SeekBack(before uint64, cost int64) error {
	way := wayBack{after: max(before, 1) - 1, left: cost}
	for {
		s, sp, err := c.log.back(&way)
		if err == nil && s != nil {
			err = c.openSpooled(s, sp)
		}
		switch {
		case errors.Is(err, ErrEvicted): // while the records were read; newer segments are still there
		case err != nil:
			return err
		case s != nil && way.through(s, c.records):
			continue
		}
		c.seq = way.after
		return nil
	}
}

// A wayBack is the state of a SeekBack.
type wayBack struct {
	after uint64 // the entries above this number, up to the given one, have been passed
	left  int64  // what further entries may cost
	begun bool   // at least one was passed
}

// back goes back as far as possible without reading from the spool. It returns a spooled segment if its records are needed;
// nil: the way ends here.
func (l *Log) back(way *wayBack) (*segment, *spool, error) {
	l.lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, nil, ErrEnded
	}
	h := &l.history
	way.after = min(way.after, h.next-1)
	h.seal(way.after)
	for i := h.find(way.after); i >= 0 && i < len(h.segments); i-- {
		s := h.segments[i]
		switch {
		case way.after < s.first: // its entry is not kept any more
			return nil, nil, nil
		case way.after == s.last() && s.cost <= way.left:
			way.after, way.left, way.begun = s.first-1, way.left-s.cost, true
		case s.content == nil:
			return s, l.overflow.spool, nil
		case !way.through(s, s.content.records):
			return nil, nil, nil
		}
	}
	return nil, nil, nil
}

// through goes back in a segment, entry by entry. It reports whether it came to the beginning of the segment.
func (w *wayBack) through(s *segment, records []record) bool {
	for w.after >= s.first {
		start, end := span(records, int(w.after-s.first))
		cost := int64(end-start) + EntryOverhead
		if cost > w.left && w.begun {
			return false
		}
		w.after, w.left, w.begun = w.after-1, w.left-cost, true
	}
	return true
}
