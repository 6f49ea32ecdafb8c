//go:build unix

package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// openLock opens a lock file separately from all other descriptors of it.
func openLock(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func fd(f *os.File) int { return int(f.Fd()) }

func TestModes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		has, wants Mode
		want       error
	}{
		{Shared, Shared, nil},
		{Shared, Exclusive, ErrHeld},
		{Exclusive, Shared, ErrHeld},
		{Exclusive, Exclusive, ErrHeld},
	} {
		name := filepath.Join(t.TempDir(), "lock")
		first, second := openLock(t, name), openLock(t, name)
		if err := Try(fd(first), row.has); err != nil {
			t.Fatal(err)
		}
		if err := Try(fd(second), row.wants); err != row.want {
			t.Errorf("%+v: %v", row, err)
		}
		Unlock(fd(first))
		if err := Try(fd(second), row.wants); err != nil {
			t.Errorf("%+v, after the lock was dropped: %v", row, err)
		}
	}
}

func TestDirectoriesCanBeLocked(t *testing.T) {
	t.Parallel()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := Try(fd(dir), Exclusive); err != nil {
		t.Error(err)
	}
}

// A lock changes its mode if no other open file excludes that.
func TestModeChanges(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	first, second := openLock(t, name), openLock(t, name)
	for _, mode := range []Mode{Exclusive, Shared} {
		if err := Try(fd(first), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := Try(fd(second), Shared); err != nil {
		t.Error(err)
	}
	if err := Try(fd(first), Exclusive); err != ErrHeld {
		t.Error(err)
	}
}

func TestWaitEndsWithTheLockOrTheContext(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	impatient := errors.New("impatient")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(impatient)
	if _, err := Lock(ctx, name); !errors.Is(err, impatient) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if _, err := TryLock(name); !errors.Is(err, ErrHeld) {
		t.Errorf("without waiting: %v", err)
	}
	if _, err := TryLock(name + "-missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	got := make(chan error, 1)
	go func() { // ends with the lock
		second, err := Lock(context.Background(), name)
		if err == nil {
			err = second.Close()
		}
		got <- err
	}()
	first.Close()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// A lock of Hold outlives the file that it was taken with.
func TestHoldOutlivesTheFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	f, other := openLock(t, name), openLock(t, name)
	release, err := Hold(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Hold(other); err != ErrHeld {
		t.Errorf("while the lock is held: %v", err)
	}
	release()
	if release, err = Hold(other); err != nil {
		t.Fatal(err)
	}
	release()
}

func TestLockFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(link); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link was locked: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); !os.IsNotExist(err) {
		t.Errorf("the target was made: %v", err)
	}
}

// An error of the system is not reported as a lock that another process holds.
func TestErrorsAreNotHeldLocks(t *testing.T) {
	t.Parallel()
	if err := Wait(t.Context(), -1, Exclusive); !errors.Is(err, syscall.EBADF) {
		t.Error(err)
	}
}
