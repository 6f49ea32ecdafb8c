// Package filelock locks files and directories between processes.
//
// A lock belongs to an open file: two descriptors that were opened apart exclude each other, in one process or in two. The
// kernel drops the lock when the last descriptor of the open file is closed, so a process that dies leaves no lock. A
// child that is being started shares the descriptors of its parent until it executes its program; [Unlock] drops the
// lock although such a child still has the descriptor.
//
// Locks are advisory: they exclude only programs that lock as well. The package does not check whether the name of a file
// still leads to the file that was locked. A caller whose files can be removed or replaced looks again after it has the lock.
//
// On systems without such locks [Supported] is false, and every lock succeeds without excluding anyone.
package filelock

import (
	"context"
	"errors"
	"os"
	"time"
)

// A Mode says who else may have the lock.
type Mode int

const (
	Shared    Mode = iota // others may have it as Shared
	Exclusive             // no other may have it
)

// ErrHeld says that another open file has a lock which excludes this one.
var ErrHeld = errors.New("another process holds the lock")

// The pauses between two attempts of [Wait] begin with minPause, because most locks are held for less than a
// millisecond, and double up to maxPause.
const (
	minPause = 50 * time.Microsecond
	maxPause = 5 * time.Millisecond
)

// Wait is [Try], repeated until it succeeds or ctx ends. Then it returns the cause of that.
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

// Lock opens a lock file, which it makes if there is none, and waits until it has the file's exclusive lock or ctx ends. The
// lock ends when the file is closed. A symbolic link is refused.
func Lock(ctx context.Context, name string) (*os.File, error) {
	return open(name, os.O_CREATE, func(fd int) error { return Wait(ctx, fd, Exclusive) })
}

// TryLock is [Lock] for a file that exists, without the waiting.
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
