package outlog

import (
	"strings"
	"testing"
)

// The time of the newest entry has the monotonic clock: how long a process has been silent
// does not change when the wall clock is set.
func TestSilenceIsMonotonic(t *testing.T) {
	t.Parallel()
	l := New(NewPool(t.TempDir(), 1<<20), Config{})
	defer l.End()
	for range 2 { // a new entry, and more of it
		if err := l.Append(Stdout, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if at := l.Stats().LastEntryTime; !strings.Contains(at.String(), " m=") {
			t.Errorf("the newest entry is of %v, by the wall clock", at)
		}
	}
}
