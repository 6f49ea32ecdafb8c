package outlog

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a file system of the given size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("cannot mount a small disk: %v", err)
		}
		t.Skipf("cannot mount a small disk (are you root?): %v", err)
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

// await polls what has no event: the figures of a log.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not %s", what)
		}
	}
}

// TestFullDiskLosesNothing fills the disk behind the back of the pool, which
// has seen enough free space before.
func TestFullDiskLosesNothing(t *testing.T) {
	dir := smallDisk(t, "2m")
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
	go func() {
		for w.offset < total {
			if err := w.write(MaxEntry); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	await(t, "blocked", func() bool { return l.Stats().Blocked })
	if s := l.Stats(); s.Next-1 >= 32 {
		t.Fatalf("all was taken by a full disk: %+v", s)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("does not go on when there is room")
	}
	if n, err := drainNow(t, l, Stdout); n != total || !errors.Is(err, ErrNone) {
		t.Fatalf("got %d bytes and %v", n, err)
	}
}

// TestSpoolLeavesHalfOfTheDisk also sees that space is given back: a backlog
// that was read leaves no more than the spare blocks.
func TestSpoolLeavesHalfOfTheDisk(t *testing.T) {
	dir := smallDisk(t, "16m")
	l := New(NewPool(dir, ample), Config{Retain: 1})
	done := make(chan error, 1)
	go func() { done <- writeAll(l, Stdout, ample) }()
	await(t, "blocked", func() bool { return l.Stats().Blocked })
	free, err := freeDisk(dir)
	if err != nil || free < 8<<20 || free > 8<<20+2*segmentCost {
		t.Errorf("%d bytes are free: %v", free, err)
	}
	l.Cut()
	if err := <-done; !errors.Is(err, ErrCut) {
		t.Fatal(err)
	}
	if _, err := drainNow(t, l, Stdout); !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	if free, err = freeDisk(dir); err != nil || free < 16<<20-(spareBlocks+1)*segmentCost {
		t.Errorf("%d bytes are free: %v", free, err)
	}
	l.End()
	if free, err = freeDisk(dir); err != nil || free != 16<<20 {
		t.Errorf("%d bytes are free: %v", free, err)
	}
}
