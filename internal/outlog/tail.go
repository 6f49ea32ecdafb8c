package outlog

// Tail shows visit the newest output, oldest entry first: as many whole entries
// as are together at most the given number of bytes of output, and no more than
// the given number of them. Exit and close are left out. It looks at what is
// there when it is called, and makes that final as a cursor that reads it would.
//
// It keeps nothing from being forgotten. When that happens to an entry that it
// has still to show, it returns ErrEvicted instead of leaving a hole: whoever
// wants the rest forgets what was visited and calls it again.
func (l *Log) Tail(bytes int64, entries int, visit func(Entry)) error {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return ErrEnded
	}
	w := l.history.window(bytes, entries)
	l.mu.Unlock()
	for c := l.Cursor(w.after); c.seq < w.last; {
		err := c.Next(func(e Entry) {
			if e.Kind != Output {
				return
			}
			if w.bytes <= bytes && w.entries <= entries {
				visit(e)
				return
			}
			w.bytes -= int64(len(e.Data)) // too old
			w.entries--
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A window is a run of entries, and how much output is in it.
type window struct {
	after, last uint64 // numbers: from behind the one up to the other
	bytes       int64
	entries     int
}

// ends counts the entry with number seq, an exit or a close, if s holds it.
func (s *segment) ends(seq uint64) int {
	if seq >= s.first && seq <= s.last() {
		return 1
	}
	return 0
}
