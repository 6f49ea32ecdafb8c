//go:build unix

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// canCreate returns false only if the user cannot change that: the owner of a
// directory may change its mode, also inside a sandbox.
func canCreate(dir string) bool {
	err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if err == nil || !errors.Is(err, unix.EACCES) {
		return !errors.Is(err, unix.EROFS)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return true
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(stat.Uid) == os.Geteuid()
}

// canRemove follows the rule of sticky directories: only the owner of a name and the
// owner of the directory can remove it.
func canRemove(name string) bool {
	own, dir, ok := owners(name)
	if ok && dir.Mode&unix.S_ISVTX != 0 && int(own.Uid) != os.Geteuid() && int(dir.Uid) != os.Geteuid() {
		return false
	}
	return canCreate(path.Dir(name))
}

// isForeign treats a name that cannot be looked at as ours.
func isForeign(name string) bool {
	own, dir, ok := owners(name)
	return ok && own.Uid != 0 && int(own.Uid) != os.Geteuid() && own.Uid != dir.Uid
}

// owners returns the status of a name (of a link itself) and of its
// directory.
func owners(name string) (own, dir unix.Stat_t, ok bool) {
	ok = unix.Lstat(name, &own) == nil && unix.Stat(path.Dir(name), &dir) == nil
	return own, dir, ok
}

// openAtOnce opens a file of any kind for reading, and never blocks.
func openAtOnce(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
