package outlog

import (
	"bytes"
	"errors"
	"testing"
)

// spooledLog returns a log of n full entries.
func spooledLog(t *testing.T, n int, c Config) *Log {
	t.Helper()
	l := New(NewPool(t.TempDir(), ample), c)
	t.Cleanup(l.End)
	w := writer{log: l, stream: Stdout}
	for range n {
		if err := w.write(MaxEntry); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// The way back through a spooled log reads nothing of the segments that it passes as a whole, and no output.
func TestSeekBackReadsOnlyTheEndsOfTheWay(t *testing.T) {
	l := spooledLog(t, 200, Config{})
	const perSegment = segmentCost / (MaxEntry + EntryOverhead)
	rubbish := bytes.Repeat([]byte{0xff}, segmentCost-markSize)
	spared := func(seq uint64, s *segment) bool { return seq >= s.first && seq <= s.last() }
	for _, s := range l.history.segments {
		if s.content != nil || spared(62, s) || spared(150, s) {
			continue
		}
		if _, err := l.overflow.spool.file.WriteAt(rubbish, s.block*segmentCost+markSize); err != nil {
			t.Fatal(err)
		}
	}
	c := l.Cursor(0)
	const entries = 89 // from 62 to 150
	if err := c.SeekBack(151, entries*(MaxEntry+EntryOverhead)); err != nil || c.Seq() != 61 {
		t.Errorf("the cursor is after %d, %v", c.Seq(), err)
	}
	if 62%perSegment == 1 || 150%perSegment == 0 {
		t.Fatal("the way begins or ends between two segments")
	}
}

func TestSeekBackInALogWithoutEntries(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	for _, before := range []uint64{0, 1, 2, 1 << 60, 1<<64 - 1} {
		c := l.Cursor(7)
		if err := c.SeekBack(before, 1000); err != nil || c.Seq() != 0 {
			t.Errorf("before %d: after %d, %v", before, c.Seq(), err)
		}
	}
	l.End()
	if err := l.Cursor(0).SeekBack(1, 1000); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// An entry that a reader was shown by the way back does not grow any more.
func TestSeekBackMakesEntriesFinal(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	defer l.End()
	appendText(t, l, Stdout, "one")
	c := l.Cursor(0)
	if err := c.SeekBack(2, 3+EntryOverhead); err != nil || c.Seq() != 0 {
		t.Fatalf("after %d, %v", c.Seq(), err)
	}
	appendText(t, l, Stdout, "two")
	if next := l.State().Next; next != 3 {
		t.Errorf("the next entry is %d", next)
	}
}

// While entries are dropped, the way back ends at one that is kept or was kept a moment ago, and a reader that goes on from the oldest kept entry
// misses none of those that follow.
func TestSeekBackInABusyLog(t *testing.T) {
	l := spooledLog(t, 1, Config{Retain: 4 << 20})
	done := make(chan error, 1)
	go func() { // ends when everything is written
		w := writer{log: l, stream: Stderr}
		for range 600 {
			if err := w.write(MaxEntry); err != nil {
				done <- err
				return
			}
			l.Sent(l.State().Next - 1)
		}
		done <- nil
	}()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
		before := max(l.State().Next, 50) - 49
		c := l.Cursor(0)
		if err := c.SeekBack(before, 1<<20); err != nil {
			t.Fatal(err)
		}
		for c.Seq()+1 < before {
			after := c.Seq()
			err := c.Next(func(e Entry) {
				if e.Seq != after+1 {
					t.Errorf("entry %d after %d", e.Seq, after)
				}
			})
			if errors.Is(err, ErrEvicted) {
				c.Seek(l.Stats().First - 1)
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}
