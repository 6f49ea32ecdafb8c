// Package filelock locks files and directories between processes.
//
// A lock belongs to an open file: two descriptors that were opened separately exclude each other, in one process or in
// two. The kernel drops the lock when the last descriptor of the open file is closed, so a process that dies leaves no
// lock. A child that is being started shares the descriptors of its parent until it executes its program; [Unlock]
// drops the lock even if such a child still has the descriptor.
//
// Locks are advisory: they exclude only programs that lock too. The package does not check whether the name of a file
// still leads to the file that was locked. If files can be removed or replaced, the caller checks that after it has the
// lock.
//
// On systems without such locks [Supported] is false, and every lock succeeds without excluding
// another.
//
// filelock.go has the calls that are the same on all systems; flock_*.go the system calls.
package filelock

import (
	"context"
	"errors"
	"os"
	"time"
)

// A Mode says which other locks a lock allows.
type Mode int

const (
	Shared    Mode = iota // others may have it as Shared
	Exclusive             // no other may have it
)

// ErrHeld means that another open file has a lock which excludes this one.
var ErrHeld = errors.New("another process holds the lock")

// The pauses between two attempts of [Wait] begin with minPause, because most locks are held for less than a
// millisecond, and double up to maxPause.
const (
	minPause = 50 * time.Microsecond
	maxPause = 5 * time.Millisecond
)

// Wait repeats [Try] until it succeeds or ctx ends. Then it returns the cause of ctx.
func Wait(ctx context.Context, fd int, mode Mode) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if err := Try(fd, mode); !errors.Is(err, ErrHeld) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Lock opens a lock file, which it makes if it does not exist, and waits until it has the file's exclusive lock or ctx
// ends. The lock ends when the file is closed. A symbolic link is refused.
func Lock(ctx context.Context, name string) (*os.File, error) {
	return open(name, os.O_CREATE, func(fd int) error { return Wait(ctx, fd, Exclusive) })
}

// TryLock is [Lock] for a file that exists, without waiting.
func TryLock(name string) (*os.File, error) {
	return open(name, 0, func(fd int) error { return Try(fd, Exclusive) })
}

func open(name string, create int, lock func(fd int) error) (*os.File, error) {
	f, err := os.OpenFile(name, create|os.O_RDWR|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(int(f.Fd())); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}
