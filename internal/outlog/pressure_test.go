package outlog

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// fillUntilBlocked writes full entries in the background until Append waits, or
// total bytes are written. The test runs in a synctest bubble: after synctest.Wait
// every goroutine is blocked.
func fillUntilBlocked(l *Log, s Stream, total int64) <-chan error {
	done := make(chan error, 1)
	go func() {
		w := writer{log: l, stream: s}
		for w.offset < total {
			if err := w.write(MaxEntry); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	synctest.Wait()
	return done
}

// drain reads, checks and reports all entries, including those that the writer can
// add because of that. It returns the number of bytes and the final error.
func drain(t *testing.T, l *Log, s Stream) (n int64, err error) {
	t.Helper()
	c := l.Cursor(0)
	visit := func(e Entry) {
		if e.Kind == Output && (e.Stream != s || !bytes.Equal(e.Data, pattern(s, n, len(e.Data)))) {
			t.Errorf("entry %d has wrong bytes", e.Seq)
		}
		n += int64(len(e.Data))
	}
	for {
		for err = c.Next(visit); err == nil; err = c.Next(visit) {
			l.Sent(c.Seq())
		}
		if synctest.Wait(); l.State().Next-1 == c.Seq() || !errors.Is(err, ErrNone) {
			return n, err
		}
	}
}

func isDone(done <-chan error) (error, bool) {
	synctest.Wait()
	select {
	case err := <-done:
		return err, true
	default:
		return nil, false
	}
}

func TestAppendWaitsAtTheUnsentLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2 << 20
		start := time.Now()
		l := New(NewPool(t.TempDir(), ample), Config{Limit: limit})
		defer l.End()
		done := fillUntilBlocked(l, Stdout, 4<<20)
		s := l.Stats()
		if !s.Blocked || s.Unsent > limit || s.Unsent < limit-MaxEntry-EntryOverhead {
			t.Fatalf("Append does not wait at the limit: %+v", s)
		}
		l.Exit(7)
		if !l.State().Exited {
			t.Fatal("exit is not admitted")
		}
		l.Sent(1)
		if l.Stats().Next != s.Next+1 {
			t.Fatal("Append returned although no segment was sent")
		}
		l.Sent(8)
		if synctest.Wait(); l.Stats().Next < s.Next+4 {
			t.Fatalf("Append still waits: %+v", l.Stats())
		}
		if n, err := drain(t, l, Stdout); n != 4<<20 || !errors.Is(err, ErrNone) {
			t.Fatalf("got %d bytes and %v", n, err)
		}
		if err, ok := isDone(done); !ok || err != nil || l.Stats().Blocked {
			t.Fatalf("append: %v, %v, %+v", ok, err, l.Stats())
		}
		if time.Since(start) != 0 {
			t.Errorf("a goroutine waited for a timer: %v", time.Since(start))
		}
	})
}

// The log adds up the times in which it takes no output. Two streams that wait at the same time count once.
func TestBlockedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(NewPool(t.TempDir(), ample), Config{Limit: 2 << 20})
		defer l.End()
		first := fillUntilBlocked(l, Stdout, 2<<20)
		time.Sleep(time.Second)
		second := fillUntilBlocked(l, Stderr, 1)
		time.Sleep(2 * time.Second)
		if d := l.BlockedFor(); d != 3*time.Second {
			t.Errorf("blocked for %v", d)
		}
		l.Sent(l.State().Next - 1)
		for _, done := range []<-chan error{first, second} {
			if err, ok := isDone(done); !ok || err != nil {
				t.Errorf("append: %v, %v", ok, err)
			}
		}
		time.Sleep(5 * time.Second)
		if d := l.BlockedFor(); d != 3*time.Second {
			t.Errorf("blocked for %v, later", d)
		}
	})
}

func TestCutAdmitsWaitingAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(NewPool(t.TempDir(), ample), Config{Limit: 100 << 10})
		defer l.End()
		w := writer{log: l, stream: Stdout}
		done := make(chan error, 1)
		go func() { done <- w.write(3*MaxEntry + 5) }()
		synctest.Wait()
		if s := l.Stats(); !s.Blocked || s.Held != MaxEntry+EntryOverhead {
			t.Fatalf("Append does not wait: %+v", s)
		}
		l.Cut()
		if err := <-done; err != nil {
			t.Fatalf("append that waited: %v", err)
		}
		if err := l.Append(Stdout, []byte("late")); !errors.Is(err, ErrCut) {
			t.Fatalf("append after cut: %v", err)
		}
		l.Exit(0)
		l.Close()
		if n, err := drain(t, l, Stdout); n != 3*MaxEntry+5 || !errors.Is(err, io.EOF) {
			t.Fatalf("got %d bytes and %v", n, err)
		}
		if s := l.State(); !s.Exited || !s.Closed {
			t.Fatalf("state: %+v", s)
		}
	})
}

func TestNothingFollowsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(NewPool(t.TempDir(), ample), Config{Limit: 100 << 10})
		defer l.End()
		done := fillUntilBlocked(l, Stdout, 1<<20)
		l.Close()
		if err := <-done; !errors.Is(err, ErrCut) {
			t.Fatalf("append that waited: %v", err)
		}
		l.Exit(1)
		if err := l.Append(Stdout, []byte("late")); !errors.Is(err, ErrCut) {
			t.Fatalf("append after close: %v", err)
		}
		if n, err := drain(t, l, Stdout); n != MaxEntry || !errors.Is(err, io.EOF) || l.State() != (State{Next: 3, Closed: true}) {
			t.Fatalf("got %d bytes and %v: %+v", n, err, l.State())
		}
	})
}

func TestEndReleasesWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(NewPool(t.TempDir(), ample), Config{Limit: 2 << 20})
		done := fillUntilBlocked(l, Stdout, ample)
		l.End()
		if err := <-done; !errors.Is(err, ErrEnded) || l.Stats().Blocked {
			t.Errorf("append: %v", err)
		}
	})
}

// TestTotalIsShared has one log take the whole pool. The other log may still hold a
// megabyte. It gets room as soon as entries of the first are sent, even while these
// are within Retain, and when the first log ends.
func TestTotalIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		pool := NewPool(t.TempDir(), 4*segmentCost)
		greedy, other := New(pool, Config{}), New(pool, Config{})
		defer other.End()
		w := writer{log: greedy, stream: Stdout}
		for pool.Used() < 4*segmentCost {
			if err := w.write(MaxEntry); err != nil {
				t.Fatal(err)
			}
		}
		done := fillUntilBlocked(other, Stderr, 4<<20)
		checkSpooled := func(segments int) {
			t.Helper()
			synctest.Wait()
			const unit = 4 * (MaxEntry + EntryOverhead)
			if s := other.Stats(); !s.Blocked || s.Unsent-s.Spooled < memoryCost || s.Spooled != int64(segments*unit) {
				t.Errorf("%d segments should be spooled: %+v", segments, s)
			}
		}
		checkSpooled(0)
		greedy.Sent(9) // two segments and one entry
		checkSpooled(2)
		if first := greedy.Stats().First; first != 9 {
			t.Errorf("the first entry is %d", first)
		}
		greedy.End()
		checkSpooled(4)
		if n, err := drain(t, other, Stderr); n != 4<<20 || !errors.Is(err, ErrNone) {
			t.Errorf("got %d bytes and %v", n, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if time.Since(start) != 0 {
			t.Errorf("a goroutine waited for a timer: %v", time.Since(start))
		}
	})
}

// TestReadingClientNeverBlocks has a pool without any room: sent entries are
// dropped early, but the process continues.
func TestReadingClientNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(NewPool(t.TempDir(), 0), Config{})
		defer l.End()
		done := fillUntilBlocked(l, PTY, 8<<20)
		if n, err := drain(t, l, PTY); n != 8<<20 || !errors.Is(err, ErrNone) {
			t.Fatalf("got %d bytes and %v", n, err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// TestSpoolFailureLosesNothing uses a directory that does not exist yet, with two
// writers. If they woke each other again and again, synctest.Wait would never
// return.
func TestSpoolFailureLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "later")
		l := New(NewPool(dir, ample), Config{})
		defer l.End()
		first, second := fillUntilBlocked(l, Stdout, 4<<20), fillUntilBlocked(l, Stderr, 4<<20)
		before := l.Stats()
		if !before.Blocked || before.Unsent < memoryCost {
			t.Fatalf("Append does not wait: %+v", before)
		}
		time.Sleep(10 * retrySpool) // on the bubble's clock
		if after := l.Stats(); after != before {
			t.Fatalf("something happened: %+v, then %+v", before, after)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retrySpool)
		for _, done := range []<-chan error{first, second} {
			if err, ok := isDone(done); !ok || err != nil {
				t.Fatalf("append: %v", err)
			}
		}
		names, err := os.ReadDir(dir)
		if err != nil || len(names) > 0 {
			t.Errorf("the spool file has a name: %v, %v", names, err)
		}
		var got [3]int64
		err = follow(t.Context(), closed(l), false, func(e Entry) {
			if !bytes.Equal(e.Data, pattern(e.Stream, got[e.Stream], len(e.Data))) {
				t.Errorf("entry %d has wrong bytes", e.Seq)
			}
			got[e.Stream] += int64(len(e.Data))
		})
		if !errors.Is(err, io.EOF) || got[Stdout] != 4<<20 || got[Stderr] != 4<<20 {
			t.Errorf("got %v and %v", got, err)
		}
	})
}

func closed(l *Log) *Log {
	l.Close()
	return l
}

// TestTailStaysOpen lists the entries that one reader gets for the writes of
// another.
func TestTailStaysOpen(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	defer l.End()
	c := l.Cursor(0)
	var got []string
	read := func(n int) {
		t.Helper()
		for range n {
			if err := c.Next(func(e Entry) { got = append(got, e.Stream.String()+" "+string(e.Data)) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(s Stream, p string) {
		t.Helper()
		if err := l.Append(s, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	write(Stdout, "a")
	write(Stdout, "b")
	read(1)
	write(Stdout, "c") // "ab" is final
	write(Stderr, "d")
	write(Stderr, "e")
	write(Stdout, "f") // does not join "c"
	read(2)
	write(Stdout, "g") // "f" is unread
	l.Sent(4)
	write(Stdout, "h") // but "fg" was sent
	read(2)
	l.Exit(0)
	write(Stdout, "i")
	read(2)
	want := []string{"stdout ab", "stdout c", "stderr de", "stdout fg", "stdout h", "unknown ", "stdout i"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOpenTailGrowsToMaxEntry(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	defer l.End()
	w := writer{log: l, stream: Stdout}
	for range 3 * MaxEntry / 1024 {
		if err := w.write(1000); err != nil {
			t.Fatal(err)
		}
	}
	var sizes []int
	c := l.Cursor(0)
	for c.Next(func(e Entry) { sizes = append(sizes, len(e.Data)) }) == nil {
	}
	if want := []int{MaxEntry, MaxEntry, 192*1000 - 2*MaxEntry}; !slices.Equal(sizes, want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(NewPool(t.TempDir(), ample), Config{})
		begin := func(after uint64) <-chan error {
			done := make(chan error, 1)
			go func() { done <- wait(t.Context(), l, after) }()
			if _, ok := isDone(done); ok || l.Ready(after) {
				t.Fatalf("no wait behind %d", after)
			}
			return done
		}
		for after, happen := range []func(){
			func() { l.Append(Stdout, []byte("x")) },
			func() { l.Exit(1) },
			l.Close,
		} {
			done := begin(uint64(after))
			happen()
			if err, ok := isDone(done); !ok || err != nil || !l.Ready(uint64(after)) {
				t.Fatalf("wait behind %d: %v, %v", after, ok, err)
			}
		}
		if !l.Ready(1<<64-1) || l.Cursor(1<<64-1).Next(nil) != io.EOF {
			t.Error("a reader after the close has nothing to wait for")
		}
		l.End()
		if err := wait(t.Context(), l, 0); !errors.Is(err, ErrEnded) {
			t.Errorf("wait after the end: %v", err)
		}
	})
}

func TestEndIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(NewPool(t.TempDir(), ample), Config{})
		ended := make(chan error, 1)
		go func() { ended <- wait(t.Context(), l, 0) }()
		synctest.Wait()
		l.End()
		if err := <-ended; !errors.Is(err, ErrEnded) {
			t.Errorf("ended: %v", err)
		}
		if err := l.Cursor(1<<64 - 1).Next(nil); !errors.Is(err, ErrEnded) {
			t.Errorf("next after the end: %v", err)
		}
	})
}

func TestListenersAreWoken(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	var once, always int
	stop := l.OnAppend(func(bool) { once++ })
	l.OnAppend(func(bool) { always++ })
	if err := l.Append(Stdout, []byte("x")); err != nil {
		t.Fatal(err)
	}
	stop()
	for _, happen := range []func(){func() { l.Exit(0) }, l.Close, l.End} {
		happen()
	}
	if once != 1 || always != 4 {
		t.Errorf("woken %d and %d times, want 1 and 4", once, always)
	}
}

// TestCursorBeyondEmptyLog asks for a number that no log reaches.
func TestCursorBeyondEmptyLog(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	defer l.End()
	if err := l.Cursor(1<<64 - 1).Next(nil); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

func TestPending(t *testing.T) {
	l := New(NewPool(t.TempDir(), ample), Config{})
	defer l.End()
	read := func() { l.Cursor(l.State().Next - 2).Next(func(Entry) {}) } // makes the entry final
	check := func(after, entries uint64, bytes int) {
		t.Helper()
		if e, b := l.Pending(after); e != entries || b != bytes {
			t.Errorf("behind %d: %d entries, %d bytes; want %d, %d", after, e, b, entries, bytes)
		}
	}
	check(0, 0, 0)
	l.Append(Stdout, []byte("abc"))
	read()
	l.Append(Stdout, []byte("de"))
	l.Exit(0)
	check(0, 3, 5)
	check(1, 2, 2)
	check(2, 1, 0)
	check(3, 0, 0)
	check(1<<64-1, 0, 0)
	if err := l.Append(Stdout, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if e, b := l.Pending(0); e < 17 || b < 1<<20 {
		t.Errorf("%d entries, %d bytes behind the first", e, b)
	}
}
