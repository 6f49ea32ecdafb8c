//go:build unix

package listen

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// lockPatience is how long a start waits for another one in the same directory,
// which holds the lock for less than a millisecond.
const lockPatience = 2 * time.Second

// lockDir keeps other servers from creating a socket file in dir until unlock.
// The lock is on the directory itself, so nothing is left behind.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { d.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			d.Close()
			return nil, os.NewSyscallError("flock "+dir, err)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			d.Close()
			return nil, errors.New("another process holds a lock on the directory " + dir)
		}
	}
}
