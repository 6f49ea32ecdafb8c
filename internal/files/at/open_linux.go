package at

import (
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Missing is set by the first call that the kernel, or a filter, does not know. Tests
// set it to go the other way.
var Missing atomic.Bool

// pathMax is the longest path, with its end, that a system call takes.
const pathMax = 4096

// Open opens path from the directory at, or from / if it is absolute. A link on the way
// is ELOOP, and so is one at the end; flags that have both O_PATH and O_NOFOLLOW open
// that one itself. Open makes nothing.
func Open(at int, path string, flags int) (int, error) {
	if len(path) < pathMax && !Missing.Load() {
		fd, err := open2(at, path, flags)
		switch err {
		case nil:
			return fd, nil
		case unix.ENOSYS:
			Missing.Store(true)
		case unix.EPERM: // a filter's no, or the file system's: the steps will tell
		default:
			return -1, err
		}
	}
	return stepwise(at, path, flags)
}

func open2(at int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(at, path, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// stepwise is Open with one call per name. The path may be of any length.
func stepwise(at int, path string, flags int) (int, error) {
	const step = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir := at
	enter := func(name string, flags int) error {
		next, err := openat(dir, name, flags)
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
		if dir, err = openat(unix.AT_FDCWD, "/", step); err != nil {
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

// isLink reports whether a name, or a descriptor itself, is a link. In doubt it is.
func isLink(dir int, name string, flags int) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, flags) != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		if fd, err := unix.Openat(dir, name, flags, 0); err != unix.EINTR {
			return fd, err
		}
	}
}
