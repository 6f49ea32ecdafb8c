package files

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// A walkRoot is the directory where a walk starts. Everything below is opened
// from there, so that the root may be moved during the walk.
type walkRoot struct {
	nameAt
	follow bool
	id     any
	buf    []byte // shared by all listings, of which one is used at a time

	check func(fd int) error // see [Screened]; nil: no check
}

// openWalk opens the root of a walk. It returns nil if the root exists but is not
// a directory, or is a link that may not be followed: then there is nothing
// below.
func openWalk(path string, follow bool) (*walkRoot, error) {
	var st unix.Stat_t
	if err := at.Retry(func() error { return unix.Stat(path, &st) }); err != nil {
		return nil, err
	}
	flags := unix.O_PATH | unix.O_CLOEXEC
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := at.Openat(unix.AT_FDCWD, path, flags, 0)
	if err != nil {
		return nil, err
	}
	return newWalk(fd, follow)
}

// newWalk makes the root of a walk from an O_PATH descriptor, which it takes
// over.
func newWalk(fd int, follow bool) (*walkRoot, error) {
	id, isDir, err := identify(fd, "", unix.AT_EMPTY_PATH)
	if err != nil || !isDir {
		unix.Close(fd)
		return nil, err
	}
	return &walkRoot{nameAt: nameAt{fd, "."}, follow: follow, id: id, buf: make([]byte, listBuffer)}, nil
}

// A directoryID is equal for two names of one directory.
type directoryID struct{ device, inode, mount uint64 }

// identify returns the identity of a name. The mount counts: a directory that is
// mounted twice has two identities.
func identify(dir int, name string, flags int) (id directoryID, isDir bool, err error) {
	var st unix.Statx_t
	err = statx(dir, name, flags, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_MNT_ID, &st)
	id = directoryID{uint64(st.Dev_major)<<32 | uint64(st.Dev_minor), st.Ino, st.Mnt_id}
	return id, err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// list returns the first keep names, in order, of the directory below the root.
func (r *walkRoot) list(ctx context.Context, below string, keep int) ([]*walkName, error) {
	listed, err := r.open(below)
	if err != nil {
		return nil, err
	}
	defer listed.close()
	// In a directory that may be read but not searched, names have no types. One
	// check of the directory answers for all of them.
	closed := at.Retry(func() error { return unix.Faccessat(listed.fd, ".", unix.F_OK, 0) })
	var names []*walkName
	for {
		raw, kind, err := listed.next(ctx)
		if raw == nil || err != nil {
			return smallest(names, keep), err
		}
		name, ok := r.look(listed, string(raw), kind, closed)
		if !ok {
			continue
		}
		if names = append(names, name); len(names) >= 2*keep && len(names) > 1024 {
			names = smallest(names, keep)
		}
	}
}

// open opens the directory below the root for reading. If the root may be read
// but not searched, "." in it cannot be opened.
func (r *walkRoot) open(below string) (*listing, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	var fd int
	var err error
	switch {
	case below == "":
		fd, err = at.Openat(unix.AT_FDCWD, at.ProcPath(r.dir), flags, 0)
		if err == unix.ENOENT { // no /proc
			fd, err = at.Openat(r.dir, ".", flags, 0)
		}
	case r.follow:
		fd, err = at.Openat(r.dir, below, flags, 0)
	default:
		fd, err = at.OpenUnlinked(r.dir, below, flags)
	}
	if err == nil && r.check != nil {
		if err = r.check(fd); err != nil {
			unix.Close(fd)
		}
	}
	return &listing{fd: fd, buf: r.buf}, err
}

// look returns the kind of a name for a walk; false for a dangling link. Only
// links, and directories when links are followed, cost a system call.
func (r *walkRoot) look(l *listing, name string, dirent byte, closed error) (*walkName, bool) {
	found := &walkName{name: name}
	if closed != nil {
		found.err = closed
		return found, dirent != unix.DT_LNK
	}
	own, err := l.typeOf(name, dirent, false)
	if err != nil {
		found.err = err
		return found, true
	}
	kind := own
	if own == unix.DT_LNK {
		if kind, err = l.typeOf(name, own, true); err != nil {
			return found, false
		}
	}
	switch {
	case kind == unix.DT_DIR && r.follow:
		found.kind = walkDirectory
		found.id, _, found.err = identify(l.fd, name, 0)
	case own == unix.DT_DIR:
		found.kind = walkDirectory
	case own == unix.DT_REG:
		found.kind = walkFile
	}
	return found, true
}
