//go:build unix

package filelock

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Supported reports whether this system has locks.
const Supported = true

// noFollow makes it an error to open a symbolic link.
const noFollow = syscall.O_NOFOLLOW

// Try takes the lock, or changes its mode, without waiting. If another open file excludes it, Try returns ErrHeld.
// If the mode could not be changed, the earlier lock may be lost.
func Try(fd int, mode Mode) error {
	how := unix.LOCK_SH
	if mode == Exclusive {
		how = unix.LOCK_EX
	}
	for {
		switch err := unix.Flock(fd, how|unix.LOCK_NB); err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return ErrHeld
		default:
			return os.NewSyscallError("flock", err)
		}
	}
}

// Unlock drops the lock.
func Unlock(fd int) { unix.Flock(fd, unix.LOCK_UN) }

// Hold takes the exclusive lock of an open file without waiting. The lock lasts until release, even if f is closed
// before that.
func Hold(f *os.File) (release func(), err error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0) // the copy shares the lock
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if err := Try(fd, Exclusive); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return func() { unix.Close(fd) }, nil
}
