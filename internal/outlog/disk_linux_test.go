package outlog

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// smallDisk mounts a file system of the given size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		need.CannotRun(t, "a small disk cannot be mounted (are you root?): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err) // a spool file was left open
		}
	})
	return dir
}

// fillDisk leaves no space on a small disk.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(noise[:4096])
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// TestFullDiskLosesNothing fills the disk after the pool has measured enough free
// space.
func TestFullDiskLosesNothing(t *testing.T) {
	dir := smallDisk(t, "2m")
	synctest.Test(t, func(t *testing.T) {
		ballast := filepath.Join(dir, "ballast")
		l := New(NewPool(dir, ample), Config{})
		defer l.End()
		w := writer{log: l, stream: Stdout}
		for l.Stats().Spooled == 0 {
			if err := w.write(MaxEntry); err != nil {
				t.Fatal(err)
			}
		}
		fillDisk(t, ballast)
		const total = 32 * MaxEntry
		done := make(chan error, 1)
		go func() { done <- w.write(int(total - w.offset)) }()
		if err, ok := isDone(done); ok || !l.Stats().Blocked {
			t.Fatalf("a full disk took everything: %v", err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retrySpool) // on the bubble's clock
		if err, ok := isDone(done); !ok || err != nil {
			t.Fatalf("Append still waits when there is room: %v", err)
		}
		if l.overflow.spool.size*segmentCost != l.overflow.pool.Used() {
			t.Errorf("the file has %d blocks for %d bytes", l.overflow.spool.size, l.overflow.pool.Used())
		}
		if n, err := drain(t, l, Stdout); n != total || !errors.Is(err, ErrNone) {
			t.Fatalf("got %d bytes and %v", n, err)
		}
	})
}

// TestFullDiskEvictsSentEntries fills the disk under a log with sent entries: these
// entries make room, for this log and for another.
func TestFullDiskEvictsSentEntries(t *testing.T) {
	for _, own := range []bool{true, false} {
		dir := smallDisk(t, "8m")
		synctest.Test(t, func(t *testing.T) {
			pool := NewPool(dir, ample)
			l := New(pool, Config{})
			defer l.End()
			w := writer{log: l, stream: Stdout}
			for l.Stats().Spooled < 2<<20 {
				if err := w.write(MaxEntry); err != nil {
					t.Fatal(err)
				}
			}
			next := l.State().Next
			l.Sent(next - 1)
			fillDisk(t, filepath.Join(dir, "ballast"))
			if !own {
				w = writer{log: New(pool, Config{}), stream: Stderr}
				defer w.log.End()
			}
			done := make(chan error, 1)
			go func() { done <- w.write(1<<20 - 7); done <- w.write(1<<20 - 7) }()
			for range 2 {
				if !own { // other logs are not woken when a file shrinks
					time.Sleep(retrySpool) // on the bubble's clock
				}
				if err, ok := isDone(done); !ok || err != nil {
					t.Fatalf("blocked by sent entries: %v, %+v", err, w.log.Stats())
				}
			}
			if s := l.Stats(); s.First == 1 || s.First > next {
				t.Fatalf("%d was the first unsent: %+v", next, s)
			}
		})
	}
}

// TestSpoolLeavesHalfOfTheDisk also checks that space is given back: after the
// backlog was read, only the spare blocks remain.
func TestSpoolLeavesHalfOfTheDisk(t *testing.T) {
	dir := smallDisk(t, "16m")
	synctest.Test(t, func(t *testing.T) {
		checkFree := func(low, high int64) {
			t.Helper()
			if free, err := freeDisk(dir); err != nil || free < low || free > high {
				t.Errorf("%d bytes are free: %v; want %d to %d", free, err, low, high)
			}
		}
		l := New(NewPool(dir, ample), Config{Retain: 1})
		done := fillUntilBlocked(l, Stdout, ample)
		time.Sleep(10 * retrySpool) // on the bubble's clock
		checkFree(8<<20, 8<<20+2*segmentCost)
		l.Cut()
		if err := <-done; !errors.Is(err, ErrCut) {
			t.Fatal(err)
		}
		if _, err := drain(t, l, Stdout); !errors.Is(err, ErrNone) {
			t.Fatal(err)
		}
		checkFree(16<<20-(spareBlocks+1)*segmentCost, 16<<20)
		l.End()
		checkFree(16<<20, 16<<20)
	})
}
