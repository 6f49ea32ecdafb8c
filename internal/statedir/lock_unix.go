//go:build unix

package statedir

import (
	"os"
	"syscall"
)

// lockFile opens a file and locks it, waiting for others that hold it.
func lockFile(path string) (*os.File, error) { return flock(path, syscall.LOCK_EX) }

// tryLockFile is lockFile without the waiting.
func tryLockFile(path string) (*os.File, error) { return flock(path, syscall.LOCK_EX|syscall.LOCK_NB) }

func flock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
