package outlog

// Tail passes the newest output to visit, oldest entry first: as many whole entries
// as fit into the given number of bytes of output, and no more than the given
// number of entries. Exit and close are left out. It shows the log as of the call,
// and makes these entries final, as a cursor that reads them would.
//
// It pins nothing. If an entry that it still has to show is dropped, it returns
// ErrEvicted instead of leaving a gap: the caller discards the visited entries and
// calls Tail again.
func (l *Log) Tail(bytes int64, entries int, visit func(Entry)) error {
	w, err := l.window(bytes, entries)
	if err != nil {
		return err
	}
	for c := l.Cursor(w.after); c.seq < w.last; {
		err := c.Next(func(e Entry) {
			if e.Kind != Output {
				return
			}
			if w.bytes <= bytes && w.entries <= entries {
				visit(e)
				return
			}
			w.bytes -= int64(len(e.Data)) // too old for the limit
			w.entries--
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) window(bytes int64, entries int) (window, error) {
	l.lock()
	defer l.mu.Unlock()
	if l.ended {
		return window{}, ErrEnded
	}
	return l.history.window(bytes, entries), nil
}

// A window is a run of entries, and the amount of output in it.
type window struct {
	after, last uint64 // the entries after the one number, up to the other
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
