package files

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// errInPlace says that a file cannot be replaced without changing more than its
// content.
var errInPlace = errors.New("the file has to be written in place")

// errNamed says that a file without a name cannot be made here, or not be given one.
var errNamed = errors.New("the temporary file needs a name")

// A temporary is a file that becomes another one once it is whole. It has no name
// before (O_TMPFILE), so that a process that is killed meanwhile leaves nothing behind.
// A file that is replaced can only be by a rename, so for the time of two system
// calls there is a hidden name beside it. Where the file system cannot do this, the
// hidden name is there from the beginning.
type temporary struct {
	place // without a name: none yet
	fd    int
}

// temporary makes an empty file in the directory of p.
func (p place) temporary(mode uint32, named bool) (*temporary, error) {
	if !named {
		fd, err := at.Openat(p.dir, ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, mode)
		switch {
		case err != nil && !isFull(err):
			err = errNamed
		case err == nil && !masked(fd):
			unix.Close(fd)
			fd, err = -1, errNamed
		}
		return &temporary{place{p.dir, ""}, fd}, err
	}
	name := hiddenName()
	fd, err := at.Openat(p.dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	return &temporary{place{p.dir, name}, fd}, err
}

// masked reports whether a new file has no permission that the umask takes away. Before Linux
// 6.0, files without a name ignored the umask on file systems without access control lists.
func masked(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&umask() == 0
}

// umask is that of this process, which does not change it. If the system does not say, it
// takes away everything.
var umask = sync.OnceValue(func() uint32 {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := bytes.Cut(status, []byte("\nUmask:\t"))
	digits, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(digits), 8, 32)
	if err != nil {
		return 0o777
	}
	return uint32(mask)
})

func hiddenName() string { return ".tether-" + rand.Text() + ".tmp" }

// fill writes the temporary, and closes a duplicate: that is when a network file system
// tells of a full disk.
func (t *temporary) fill(data []byte) error {
	if err := writeAll(t.fd, data); err != nil {
		return err
	}
	duplicate, err := unix.FcntlInt(uintptr(t.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(duplicate)
}

// finish closes the temporary, and removes it if it has not become something.
func (t *temporary) finish() {
	unix.Close(t.fd)
	if t.name != "" {
		_ = unix.Unlinkat(t.dir, t.name, 0)
	}
}

// appear gives the temporary its name, which must be new. The error is EEXIST if it
// is not, errInPlace if the file system cannot promise this.
func (t *temporary) appear(name string) error {
	if t.name == "" {
		return t.link(name)
	}
	err := at.Retry(func() error { return unix.Renameat2(t.dir, t.name, t.dir, name, unix.RENAME_NOREPLACE) })
	switch err {
	case nil:
		t.name = ""
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
		return errInPlace
	}
	return err
}

// replace puts the temporary in the place of another file.
func (t *temporary) replace(name string) error {
	if t.name == "" {
		hidden := hiddenName()
		if err := t.link(hidden); err != nil {
			return err
		}
		t.name = hidden
	}
	err := at.Retry(func() error { return unix.Renameat(t.dir, t.name, t.dir, name) })
	if err == nil {
		t.name = ""
	}
	return err
}

// link gives the temporary a name. The error is errNamed if it cannot have one, for
// example because there is no /proc.
func (t *temporary) link(name string) error {
	err := at.Retry(func() error {
		return unix.Linkat(unix.AT_FDCWD, at.ProcPath(t.fd), t.dir, name, unix.AT_SYMLINK_FOLLOW)
	})
	if err != nil && err != unix.EEXIST && !isFull(err) {
		return errNamed
	}
	return err
}

// create makes a new file that appears with its whole content.
func (p place) create(data []byte) error {
	err := p.createBy(data, false)
	if err == errNamed {
		err = p.createBy(data, true)
	}
	if err == errInPlace {
		err = p.createPlainly(data)
	}
	return err
}

func (p place) createBy(data []byte, named bool) error {
	t, err := p.temporary(0o666, named)
	if err == errNamed {
		return err
	}
	if err != nil {
		return errInPlace
	}
	defer t.finish()
	if err := t.fill(data); err != nil {
		return err
	}
	if err = t.appear(p.name); err == unix.EEXIST {
		return errAppeared
	}
	return err
}

// createPlainly makes a new file under its own name, which goes again if it
// cannot be written. Its error is that of the name itself.
func (p place) createPlainly(data []byte) error {
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

// replace puts a new file with data, and with all else that old has, in the place
// of old. The error is errInPlace if that is not possible; whatever it is, the
// file at p is then as it was.
func (p place) replace(old int, data []byte) error {
	var st unix.Statx_t
	if err := statx(old, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil || !p.replaceable(st) {
		return errInPlace
	}
	err := p.replaceBy(old, st, data, false)
	if err == errNamed {
		err = p.replaceBy(old, st, data, true)
	}
	return err
}

func (p place) replaceBy(old int, st unix.Statx_t, data []byte, named bool) error {
	t, err := p.temporary(0o600, named)
	if isFull(err) || err == errNamed {
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
	switch err := t.replace(p.name); err {
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
