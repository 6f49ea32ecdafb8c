package outlog

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The time of the newest entry includes the monotonic clock: how long a process has been
// silent does not change when the wall clock is set.
func TestSilenceIsMonotonic(t *testing.T) {
	t.Parallel()
	l := New(NewPool(t.TempDir(), 1<<20), Config{})
	defer l.End()
	for range 2 { // a new entry, and output that joins it
		if err := l.Append(Stdout, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if at := l.Stats().LastEntryTime; !strings.Contains(at.String(), " m=") {
			t.Errorf("the newest entry is of %v, by the wall clock", at)
		}
	}
}

// Unread output of a quiet process does not join an old entry: the time of an entry is
// the time of its output, to a second.
func TestEntriesHaveTheirOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(NewPool(t.TempDir(), 1<<20), Config{})
		defer l.End()
		for _, pause := range []time.Duration{0, joinTime, 1, time.Hour} {
			time.Sleep(pause)
			if err := l.Append(Stdout, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		var sizes []int
		var times []time.Time
		c := l.Cursor(0)
		for len(sizes) < 3 {
			if err := c.Next(func(e Entry) {
				sizes, times = append(sizes, len(e.Data)), append(times, e.Time)
			}); err != nil {
				t.Fatalf("%v after entries of %v bytes", err, sizes)
			}
		}
		if !slices.Equal(sizes, []int{2, 1, 1}) || times[2].Sub(times[0]) != time.Hour+joinTime+1 {
			t.Errorf("entries of %v bytes at %v", sizes, times)
		}
	})
}
