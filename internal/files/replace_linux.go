package files

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// errInPlace means that a file cannot be replaced without changing more than
// its content.
var errInPlace = errors.New("the file has to be written in place")

// errReplaced means that another program has replaced or removed the file meanwhile. The old file must not be
// written: programs that have it open would read a mixture.
var errReplaced = errors.New("another program has replaced the file")

// fill writes a new file, and closes a duplicate of its descriptor: a network file system
// reports a full disk then.
func fill(fd int, data []byte) error {
	if err := writeAll(fd, data); err != nil {
		return err
	}
	duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(duplicate)
}

// finish closes a temporary file, and removes it if it has not got its final
// name.
func finish(t *at.Temporary) {
	unix.Close(t.Fd)
	_ = t.Remove()
}

// create creates a new file that appears with its whole content.
func (p nameAt) create(data []byte) error {
	err := p.createBy(data, false)
	if err == at.ErrNeedsName {
		err = p.createBy(data, true)
	}
	if err == at.ErrMayReplace || err == errInPlace {
		err = p.createPlainly(data)
	}
	return err
}

func (p nameAt) createBy(data []byte, named bool) error {
	t, err := at.NewTemporary(p.dir, 0o666, named)
	if err == at.ErrNeedsName {
		return err
	}
	if err != nil {
		return errInPlace
	}
	defer finish(t)
	if err := fill(t.Fd, data); err != nil {
		return err
	}
	if err = t.Appear(p.name); err == unix.EEXIST {
		return errAppeared
	}
	return err
}

// createPlainly creates a new file under its own name, and removes it if it
// cannot be written. Its error is about that name.
func (p nameAt) createPlainly(data []byte) error {
	fd, err := at.Openat(p.dir, p.name, openFlags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o666)
	if err == unix.EEXIST {
		return errAppeared
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := writeAll(fd, data); err != nil {
		_ = unix.Unlinkat(p.dir, p.name, 0)
		return err
	}
	return nil
}

// replace puts a new file with data, and with all other properties of old, in the
// place of old. The error is errInPlace if that is not possible, and errReplaced if
// old is not there any more; after any error the file at p is unchanged.
func (p nameAt) replace(old int, data []byte) error {
	var st unix.Statx_t
	if err := statx(old, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return errInPlace
	}
	if st.Nlink == 0 && !p.has(old) { // some file systems always report 0
		return errReplaced
	}
	if !p.replaceable(st) {
		return errInPlace
	}
	err := p.replaceBy(old, st, data, false)
	if err == at.ErrNeedsName {
		err = p.replaceBy(old, st, data, true)
	}
	return err
}

func (p nameAt) replaceBy(old int, st unix.Statx_t, data []byte, named bool) error {
	t, err := at.NewTemporary(p.dir, 0o600, named)
	if at.IsFull(err) || err == at.ErrNeedsName {
		return err
	}
	if err != nil {
		return errInPlace
	}
	defer finish(t)
	if err := resemble(t.Fd, old, st); at.IsFull(err) {
		return err
	} else if err != nil {
		return errInPlace
	}
	if err := fill(t.Fd, data); err != nil {
		return err
	}
	switch err := t.Replace(p.name); err {
	case unix.EBUSY, unix.EPERM, unix.EACCES, unix.EXDEV: // a mount point, or we may not rename it
		return errInPlace
	default:
		return err
	}
}

// has reports whether p is the name of an open file.
func (p nameAt) has(file int) bool {
	var here, there unix.Stat_t
	return unix.Fstat(file, &here) == nil && unix.Fstatat(p.dir, p.name, &there, unix.AT_SYMLINK_NOFOLLOW) == nil && at.Same(here, there)
}

// keptAttributes are properties of a file that a new file would not have.
const keptAttributes = unix.STATX_ATTR_COMPRESSED | unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND |
	unix.STATX_ATTR_NODUMP | unix.STATX_ATTR_VERITY | unix.STATX_ATTR_DAX | unix.STATX_ATTR_MOUNT_ROOT

// replaceable reports whether a new file could have all properties in st. Set-id
// files are written in place: the kernel decides whether a write removes these
// bits.
func (p nameAt) replaceable(st unix.Statx_t) bool {
	if st.Nlink != 1 || st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || st.Attributes&keptAttributes != 0 {
		return false
	}
	var dir unix.Stat_t
	if unix.Fstat(p.dir, &dir) != nil {
		return false
	}
	return dir.Mode&unix.S_ISVTX == 0 || int(st.Uid) == unix.Geteuid()
}

// resemble gives a new file the owner, the attributes and the mode of old.
func resemble(fd, old int, st unix.Statx_t) error {
	if err := at.SetOwner(fd, st.Uid, st.Gid); err != nil {
		return err
	}
	if err := at.CopyAttributes(old, fd); err != nil {
		return err
	}
	return unix.Fchmod(fd, uint32(st.Mode&0o7777))
}
