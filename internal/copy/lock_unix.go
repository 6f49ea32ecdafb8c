//go:build unix

package copy

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryLock takes a file for this process, unless another has it.
func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// lock takes a file for this process, unless another has it, until it is released: it
// may be closed before.
func lock(f *os.File) (release func(), held bool) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return func() {}, false
	}
	return func() { unix.Close(fd) }, tryLock(f)
}
