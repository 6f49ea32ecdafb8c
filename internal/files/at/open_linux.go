package at

import (
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Missing is set by the first call that the kernel, or a filter, does not support.
// Tests set it to use the other implementation.
var Missing atomic.Bool

// Open opens path from the directory at, or from / if it is absolute. A link in the
// path, also as its last name, is ELOOP; flags with both O_PATH and O_NOFOLLOW open a
// link at the end itself. Open creates nothing.
func Open(at int, path string, flags int) (int, error) {
	if len(path) < unix.PathMax && !Missing.Load() {
		fd, err := open2(at, path, flags)
		switch err {
		case nil:
			return fd, nil
		case unix.ENOSYS:
			Missing.Store(true)
		case unix.EPERM: // refused by a filter or by the file system: stepwise finds out
		default:
			return -1, err
		}
	}
	return stepwise(at, path, flags)
}

// OpenUnlinked is Open for requests that must not follow links: their error for a link
// is ENOTDIR.
func OpenUnlinked(at int, path string, flags int) (int, error) {
	fd, err := Open(at, path, flags)
	if err == unix.ELOOP {
		err = unix.ENOTDIR
	}
	return fd, err
}

// OpenParent opens the directory of an absolute path as Open does, and returns the last name. From
// then on changes to the directories above cannot redirect it. "/" becomes "." in itself.
func OpenParent(path string) (dir int, name string, err error) {
	parent, name := filepath.Split(path)
	if name == "" {
		name = "."
	}
	dir, err = Open(unix.AT_FDCWD, parent, Directory)
	return dir, name, err
}

// Directory has the flags for a directory that other names are opened from.
const Directory = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

func open2(at int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
	return Openat2(at, path, &how)
}

// stepwise is Open with one call per name. The path may have any length.
func stepwise(at int, path string, flags int) (int, error) {
	const step = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir := at
	enter := func(name string, flags int) error {
		next, err := Openat(dir, name, flags, 0)
		if err == unix.ENOTDIR && isLink(dir, name, unix.AT_SYMLINK_NOFOLLOW) {
			err = unix.ELOOP
		}
		if dir != at {
			unix.Close(dir)
		}
		dir = next
		return err
	}
	if strings.HasPrefix(path, "/") {
		var err error
		if dir, err = Openat(unix.AT_FDCWD, "/", step, 0); err != nil {
			return -1, err
		}
	}
	last := "."
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		if last != "." {
			if err := enter(last, step); err != nil {
				return -1, err
			}
		}
		last = name
	}
	if err := enter(last, flags|unix.O_NOFOLLOW); err != nil {
		return -1, err
	}
	if flags&unix.O_PATH != 0 && flags&unix.O_NOFOLLOW == 0 && isLink(dir, "", unix.AT_EMPTY_PATH) {
		unix.Close(dir)
		return -1, unix.ELOOP
	}
	return dir, nil
}

// isLink reports whether a name, or a descriptor itself, is a link. If that is
// unknown, it returns true.
func isLink(dir int, name string, flags int) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, flags) != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK
}
