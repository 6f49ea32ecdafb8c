package outlog

import (
	"bytes"
	"testing"
)

// OutputAfter counts the output that a reader at a position has not read, and
// Dropped the output that no reader can get any more.
func TestOutputAfter(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{Retain: 1})
	defer l.End()
	piece := bytes.Repeat([]byte("x"), 1000)
	const entries = 3 * segmentCost / 1000
	for i := range entries {
		if err := l.Append(Stdout, piece); err != nil {
			t.Fatal(err)
		}
		l.Cursor(uint64(i)).Next(func(Entry) {}) // read entries do not grow
	}
	for _, after := range []uint64{0, 1, 7, 63, 64, 65, entries - 1, entries, entries + 5} {
		want := int64(entries-min(after, entries)) * 1000
		if got := l.OutputAfter(after); got != want {
			t.Errorf("after %d: %d bytes, want %d", after, got, want)
		}
	}
	l.Sent(entries)
	s := l.Stats()
	if want := int64(s.First-1) * 1000; s.First == 1 || s.Dropped != want {
		t.Errorf("the first kept entry is %d, and %d bytes are dropped, want %d", s.First, s.Dropped, want)
	}
}
