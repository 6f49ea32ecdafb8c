//go:build unix

package homeserver

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// noFollow makes it an error to open a link.
const noFollow = syscall.O_NOFOLLOW

// tryLock locks a file until it is closed, unless somebody else has.
func tryLock(f *os.File) (held bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// detached takes a server out of our session: neither the terminal nor the end of
// the login reaches it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// open reports whether others may look into a directory.
func open(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
