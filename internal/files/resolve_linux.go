package files

import (
	"errors"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// pathMax is the longest path, with its end, that a system call takes.
const pathMax = 4096

// A place is a name in an open directory. Once a place is found, nothing that
// happens to the directories above can lead a request elsewhere.
type place struct {
	dir  int // O_PATH
	name string
}

func (p place) close() { unix.Close(p.dir) }

// find opens the directory of a clean path. Without follow no directory on the
// way may be a link; the last name is never looked at. "/" is "." in itself.
func find(path string, follow bool) (place, error) {
	if follow && len(path) >= pathMax { // else it would depend on where the last slash is
		return place{-1, ""}, unix.ENAMETOOLONG
	}
	dir, name := filepath.Split(path)
	if name == "" {
		name = "."
	}
	fd, err := openDirectory(dir, follow)
	return place{fd, name}, err
}

func openDirectory(path string, follow bool) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	if follow {
		return openat(unix.AT_FDCWD, path, flags, 0)
	}
	return openUnlinked(unix.AT_FDCWD, path, flags)
}

// openUnlinked opens a directory to which no link leads; one on the way is
// ENOTDIR.
func openUnlinked(dir int, path string, flags int) (int, error) {
	fd, err := at.Open(dir, path, flags)
	if err == unix.ELOOP {
		err = unix.ENOTDIR
	}
	return fd, err
}

// look opens what is at p without opening it for anything, a link itself if not
// follow, and says what it is.
func (p place) look(follow bool) (int, unix.Stat_t, error) {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	var st unix.Stat_t
	fd, err := openat(p.dir, p.name, flags, 0)
	if err != nil {
		return -1, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// reopen opens the very file that the O_PATH descriptor fd stands for, found at p
// where there is no /proc. O_NONBLOCK is only there for the opening.
func (p place) reopen(fd int, st unix.Stat_t, flags int) (int, error) {
	flags |= unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	opened, err := openat(unix.AT_FDCWD, procPath(fd), flags, 0)
	if err == unix.ENOENT {
		opened, err = p.openSame(st, flags)
	}
	if err != nil {
		return -1, err
	}
	if kind(st) == unix.S_IFREG {
		// There is no other flag that could be lost.
		if _, err := unix.FcntlInt(uintptr(opened), unix.F_SETFL, 0); err != nil {
			unix.Close(opened)
			return -1, err
		}
	}
	return opened, nil
}

func (p place) openSame(st unix.Stat_t, flags int) (int, error) {
	fd, err := openat(p.dir, p.name, flags, 0)
	if err != nil {
		return -1, err
	}
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil || !same(now, st) {
		unix.Close(fd)
		return -1, errors.Join(err, unix.ESTALE)
	}
	return fd, nil
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func kind(st unix.Stat_t) uint32 { return st.Mode & unix.S_IFMT }

func same(a, b unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

func openat(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags, mode)
		return err
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
