package fsrpc

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// errInPlace says that a file cannot be replaced without changing more than its
// content.
var errInPlace = errors.New("the file has to be written in place")

// A temporary is a file under a hidden name, beside the one that it will become.
type temporary struct {
	place
	fd int
}

// temporary makes an empty file beside p.
func (p place) temporary(mode uint32) (*temporary, error) {
	name := ".tether-" + rand.Text() + ".tmp"
	fd, err := openat(p.dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, err
	}
	return &temporary{place{p.dir, name}, fd}, nil
}

// fill writes the temporary, and closes it: that is where a network file system
// tells of a full disk.
func (t *temporary) fill(data []byte) error {
	fd := t.fd
	t.fd = -1
	return cmp.Or(writeAll(fd, data), unix.Close(fd)) // both, in this order
}

// finish closes the temporary, and removes it if it has not become something.
func (t *temporary) finish() {
	if t.fd >= 0 {
		unix.Close(t.fd)
	}
	if t.name != "" {
		_ = unix.Unlinkat(t.dir, t.name, 0)
	}
}

// become renames the temporary.
func (t *temporary) become(name string, flags uint) error {
	err := retry(func() error { return unix.Renameat2(t.dir, t.name, t.dir, name, flags) })
	if err == unix.ENOSYS && flags == 0 {
		err = retry(func() error { return unix.Renameat(t.dir, t.name, t.dir, name) })
	}
	if err == nil {
		t.name = ""
	}
	return err
}

// create makes a new file that appears with its whole content.
func (p place) create(data []byte) error {
	t, err := p.temporary(0o666)
	if err != nil {
		return p.createPlainly(data)
	}
	defer t.finish()
	if err := t.fill(data); err != nil {
		return err
	}
	switch err := t.become(p.name, unix.RENAME_NOREPLACE); err {
	case unix.EEXIST:
		return errAppeared
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP: // a file system that cannot promise this
		return p.createPlainly(data)
	default:
		return err
	}
}

// createPlainly makes a new file under its own name, which goes again if it
// cannot be written. Its error is that of the name itself.
func (p place) createPlainly(data []byte) error {
	fd, err := openat(p.dir, p.name, openFlags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o666)
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

// replace puts a new file with data, and with all else that old has, in the place
// of old. The error is errInPlace if that is not possible; whatever it is, the
// file at p is then as it was.
func (p place) replace(old int, data []byte) error {
	var st unix.Statx_t
	if err := statx(old, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil || !p.replaceable(st) {
		return errInPlace
	}
	t, err := p.temporary(0o600)
	if isFull(err) {
		return err
	}
	if err != nil {
		return errInPlace
	}
	defer t.finish()
	if err := t.resemble(old, st); isFull(err) {
		return err
	} else if err != nil {
		return errInPlace
	}
	if err := t.fill(data); err != nil {
		return err
	}
	switch err := t.become(p.name, 0); err {
	case unix.EBUSY, unix.EPERM, unix.EACCES, unix.EXDEV: // a mount point, or not ours to move
		return errInPlace
	default:
		return err
	}
}

// keptAttributes are properties of a file that a new one would not have.
const keptAttributes = unix.STATX_ATTR_COMPRESSED | unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND |
	unix.STATX_ATTR_NODUMP | unix.STATX_ATTR_VERITY | unix.STATX_ATTR_DAX | unix.STATX_ATTR_MOUNT_ROOT

// replaceable reports whether a new file could be all that st is. Privileges of
// the file are the kernel's matter: it takes them away, or not, from a file that
// is written.
func (p place) replaceable(st unix.Statx_t) bool {
	if st.Nlink != 1 || st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || st.Attributes&keptAttributes != 0 {
		return false
	}
	var dir unix.Stat_t
	if unix.Fstat(p.dir, &dir) != nil {
		return false
	}
	return dir.Mode&unix.S_ISVTX == 0 || int(st.Uid) == unix.Geteuid()
}

// resemble gives the temporary the owner, the attributes and the mode of old.
func (t *temporary) resemble(old int, st unix.Statx_t) error {
	var own unix.Stat_t
	if err := unix.Fstat(t.fd, &own); err != nil {
		return err
	}
	if own.Uid != st.Uid || own.Gid != st.Gid {
		if err := unix.Fchown(t.fd, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := copyAttributes(old, t.fd); err != nil {
		return err
	}
	return unix.Fchmod(t.fd, uint32(st.Mode&0o7777))
}

// copyAttributes makes the extended attributes of to, ACLs and labels included,
// those of from.
func copyAttributes(from, to int) error {
	wanted, err := attributes(from)
	if err != nil {
		return err
	}
	given, err := attributes(to)
	if err != nil {
		return err
	}
	for _, name := range wanted {
		if name == "security.capability" { // goes when a file is written
			return errInPlace
		}
		value, err := attribute(from, name)
		if err != nil {
			return err
		}
		if slices.Contains(given, name) {
			if own, err := attribute(to, name); err == nil && bytes.Equal(own, value) {
				continue // also a label that we could not set
			}
		}
		if err := unix.Fsetxattr(to, name, value, 0); err != nil {
			return err
		}
	}
	for _, name := range given {
		if slices.Contains(wanted, name) {
			continue
		}
		if err := unix.Fremovexattr(to, name); err != nil {
			return err
		}
	}
	return nil
}

// maxAttributes is the kernel's limit to the names of a file's attributes
// together, and to one value.
const maxAttributes = 64 << 10

func attributes(fd int) ([]string, error) {
	var small [256]byte
	list, err := attributeBytes(small[:], func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
	if err == unix.EOPNOTSUPP {
		return nil, nil
	}
	var names []string
	for name := range bytes.SplitSeq(list, []byte{0}) {
		if len(name) > 0 {
			names = append(names, string(name))
		}
	}
	return names, err
}

func attribute(fd int, name string) ([]byte, error) {
	return attributeBytes(make([]byte, 256), func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
}

// attributeBytes calls get with a buffer that is large enough.
func attributeBytes(buf []byte, get func([]byte) (int, error)) ([]byte, error) {
	n, err := get(buf)
	if err == unix.ERANGE {
		buf = make([]byte, maxAttributes)
		n, err = get(buf)
	}
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}
