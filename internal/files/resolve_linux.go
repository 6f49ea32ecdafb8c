package files

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// A nameAt is a name in an open directory. Once it is found, renames of
// the directories above cannot redirect a request.
type nameAt struct {
	dir  int // O_PATH
	name string
}

func (p nameAt) close() { unix.Close(p.dir) }

// find opens the directory of a clean path. Without follow no directory of the
// path may be a link; the last name is not examined. "/" becomes "." in
// itself.
func find(path string, follow bool) (nameAt, error) {
	if follow && len(path) >= unix.PathMax { // else the limit would depend on where the last slash is
		return nameAt{-1, ""}, unix.ENAMETOOLONG
	}
	dir, name := filepath.Split(path)
	if name == "" {
		name = "."
	}
	var fd int
	var err error
	if follow {
		fd, err = at.Openat(unix.AT_FDCWD, dir, at.Directory, 0)
	} else {
		fd, err = at.OpenUnlinked(unix.AT_FDCWD, dir, at.Directory)
	}
	return nameAt{fd, name}, err
}

// look opens the file at p with O_PATH, a link itself if not follow, and
// returns its status.
func (p nameAt) look(follow bool) (int, unix.Stat_t, error) {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	var st unix.Stat_t
	fd, err := at.Openat(p.dir, p.name, flags, 0)
	if err != nil {
		return -1, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// reopen opens the file of the O_PATH descriptor fd again; without /proc it uses
// p. O_NONBLOCK is only set during the open.
func (p nameAt) reopen(fd int, st unix.Stat_t, flags int) (int, error) {
	flags |= unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	opened, err := at.Openat(unix.AT_FDCWD, at.ProcPath(fd), flags, 0)
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

func (p nameAt) openSame(st unix.Stat_t, flags int) (int, error) {
	fd, err := at.Openat(p.dir, p.name, flags, 0)
	if err != nil {
		return -1, err
	}
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil || !at.Same(now, st) {
		unix.Close(fd)
		return -1, errors.Join(err, unix.ESTALE)
	}
	return fd, nil
}

func kind(st unix.Stat_t) uint32 { return st.Mode & unix.S_IFMT }
