package outlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// tailOf collects the entries of Tail.
func tailOf(t testing.TB, l *Log, bytes int64, entries int) []string {
	t.Helper()
	var got []string
	if err := l.Tail(bytes, entries, func(e Entry) { got = append(got, tailText(e)) }); err != nil {
		t.Fatalf("Tail(%d, %d): %v", bytes, entries, err)
	}
	return got
}

func tailText(e Entry) string { return fmt.Sprint(e.Seq, sight(e)) }

// all is a number of entries or bytes that no test reaches.
const all = 1 << 30

// TestTail compares Tail with its definition, on a log that is partly spooled.
func TestTail(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	l := New(NewPool(t.TempDir(), ample), Config{})
	defer l.End()
	writers := [3]writer{{log: l, stream: Stdout}, {log: l, stream: Stderr}, {log: l, stream: PTY}}
	for i := range 1200 {
		if err := writers[random.IntN(3)].write(1 + random.IntN([]int{10, 500, MaxEntry}[random.IntN(3)])); err != nil {
			t.Fatal(err)
		}
		if i == 1190 {
			l.Exit(3)
		}
	}
	l.Close()
	if l.Stats().Spooled < 4<<20 {
		t.Fatalf("too little is spooled: %+v", l.Stats())
	}
	var output []string
	var sizes []int64
	for c := l.Cursor(0); c.Seq() < l.State().Next-1; {
		if err := c.Next(func(e Entry) {
			if e.Kind == Output {
				output, sizes = append(output, tailText(e)), append(sizes, int64(len(e.Data)))
			}
		}); err != nil {
			t.Fatal(err)
		}
	}

	before := l.Stats()
	for range 200 {
		limit, entries := random.Int64N([]int64{100, MaxEntry, 1 << 20, 8 << 20, all}[random.IntN(5)]), []int{0, 1, 100, all}[random.IntN(4)]
		from, sum := len(output), int64(0)
		for from > 0 && sum+sizes[from-1] <= limit && len(output)-from < entries {
			from--
			sum += sizes[from]
		}
		if got := tailOf(t, l, limit, entries); !slices.Equal(got, output[from:]) {
			t.Fatalf("Tail(%d, %d): %d entries, want %d", limit, entries, len(got), len(output)-from)
		}
		if exact := tailOf(t, l, sum, all); len(exact) < len(output)-from {
			t.Fatalf("a limit of exactly %d shows %d entries, want %d", sum, len(exact), len(output)-from)
		}
	}
	if after := l.Stats(); after != before {
		t.Errorf("the log has changed:\n%+v\n%+v", before, after)
	}
}

func TestTailOfNothing(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	if got := tailOf(t, l, all, all); len(got) != 0 {
		t.Errorf("an empty log has %q", got)
	}
	l.Exit(0)
	l.Close()
	if got := tailOf(t, l, all, all); len(got) != 0 {
		t.Errorf("a log without output has %q", got)
	}
	l.End()
	if err := l.Tail(all, all, nil); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// TestTailShowsTheLogAsOfTheCall checks that later output is neither shown nor added to an
// entry that is shown, and that the limit holds.
func TestTailShowsTheLogAsOfTheCall(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	defer l.End()
	appendText(t, l, Stdout, "one")
	appendText(t, l, Stderr, "two")
	var got string
	err := l.Tail(6, all, func(e Entry) {
		appendText(t, l, Stderr, "more")
		got += fmt.Sprintf("%d:%s ", e.Seq, e.Data)
	})
	if want := "1:one 2:two "; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if s := l.Stats(); s.Released != 0 || s.First != 1 || s.Next != 4 {
		t.Errorf("the log has changed: %+v", s)
	}
}

func appendText(t *testing.T, l *Log, s Stream, text string) {
	t.Helper()
	if err := l.Append(s, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// TestTailHasNoGap drops entries while they are visited.
func TestTailHasNoGap(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{Retain: 1})
	defer l.End()
	w := writer{log: l, stream: Stdout}
	for range 40 {
		if err := w.write(MaxEntry); err != nil {
			t.Fatal(err)
		}
	}
	before := l.Stats()
	if len(tailOf(t, l, all, all)) != 40 || l.Stats() != before {
		t.Fatalf("a visit changes the log: %+v, before %+v", l.Stats(), before)
	}
	var seen []uint64
	err := l.Tail(all, all, func(e Entry) {
		if seen = append(seen, e.Seq); e.Seq == 2 {
			l.Sent(39)
		}
	})
	if !errors.Is(err, ErrEvicted) || seen[0] != 1 || seen[len(seen)-1] != uint64(len(seen)) || len(seen) >= 40 {
		t.Errorf("visited %d, then %v", seen, err)
	}
	if first := l.Stats().First; len(tailOf(t, l, all, all)) != int(41-first) {
		t.Errorf("the second call does not show all of the %d entries left", 41-first)
	}
}

func TestTailOfLogThatEnds(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	appendText(t, l, Stdout, "one")
	appendText(t, l, Stderr, "two")
	if err := l.Tail(all, all, func(Entry) { l.End() }); !errors.Is(err, ErrEnded) {
		t.Errorf("ended meanwhile: %v", err)
	}
}

// TestTailOfBusyLog calls Tail while other goroutines write and read.
func TestTailOfBusyLog(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{Retain: 2 << 20})
	defer l.End()
	done := make(chan error, 1)
	go func() { // ends when everything is written
		w, c := writer{log: l, stream: Stdout}, l.Cursor(0)
		for w.offset < 24<<20 {
			if err := w.write(5000); err != nil {
				done <- err
				return
			}
			for c.Next(func(Entry) {}) == nil {
				l.Sent(c.Seq())
			}
		}
		done <- nil
	}()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			running = false
		default:
		}
		const limit = 1 << 20
		var sum int64
		var last uint64
		err := l.Tail(limit, all, func(e Entry) {
			if sum += int64(len(e.Data)); last != 0 && e.Seq != last+1 {
				t.Errorf("entry %d after %d", e.Seq, last)
			}
			last = e.Seq
		})
		if sum > limit || err != nil && !errors.Is(err, ErrEvicted) {
			t.Errorf("%d bytes, %v", sum, err)
		}
	}
}

// BenchmarkTail is the newest mebibyte: in memory, or for short entries mostly in
// the spool.
func BenchmarkTail(b *testing.B) {
	for _, size := range []int{MaxEntry, 100} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := New(NewPool(b.TempDir(), ample), Config{})
			defer l.End()
			c := l.Cursor(0)
			for range 4 << 20 / size {
				if err := l.Append(Stdout, noise[:size]); err != nil {
					b.Fatal(err)
				}
				readNew(b, c, func(Entry) {}) // because unread short entries would be joined
			}
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Tail(1<<20, all, func(Entry) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
