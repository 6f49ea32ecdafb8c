package at

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Errors of a Temporary.
var (
	// ErrNeedsName means that a file without a name cannot be made here, or cannot be given
	// one later.
	ErrNeedsName = errors.New("the temporary file needs a name")

	// ErrMayReplace means that the file system cannot promise that a rename replaces nothing.
	ErrMayReplace = errors.New("a rename could replace a file")
)

// A Temporary is a new file that gets its name, or replaces another file, once it is complete.
//
// Without a name (O_TMPFILE) it is gone when the process is killed. A file can only be replaced by a
// rename, so the Temporary then has a hidden name for the time of two system calls. If the file
// system does not support this, the Temporary has a name from the beginning.
type Temporary struct {
	Fd   int    // open for reading and writing; the caller closes it
	Name string // in the directory; empty: none

	dir int // the caller's
}

// NewTemporary makes an empty file in a directory, with or without a name. Without a name, the error
// is ErrNeedsName unless the disk is full.
func NewTemporary(dir int, mode uint32, named bool) (*Temporary, error) {
	if named {
		return NewNamed(dir, hiddenName(), mode)
	}
	fd, err := Openat(dir, ".", unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, mode)
	switch {
	case err != nil && !IsFull(err):
		err = ErrNeedsName
	case err == nil && !masked(fd):
		unix.Close(fd)
		err = ErrNeedsName
	}
	if err != nil {
		return nil, err
	}
	return &Temporary{Fd: fd, dir: dir}, nil
}

// NewNamed makes an empty file with a name that must be new.
func NewNamed(dir int, name string, mode uint32) (*Temporary, error) {
	fd, err := Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, err
	}
	return &Temporary{Fd: fd, Name: name, dir: dir}, nil
}

// Named returns a Temporary for a file with a name that another program has made. fd and dir are the caller's.
func Named(dir, fd int, name string) *Temporary { return &Temporary{Fd: fd, Name: name, dir: dir} }

// masked reports whether a new file has no permission that the umask removes. Before Linux
// 6.0, files without a name ignored the umask on file systems without access control lists.
func masked(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&Umask() == 0
}

// Umask returns the umask of this process, which does not change. If the system does not
// report it, it is 0o777. Tests replace it.
var Umask = sync.OnceValue(func() uint32 {
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

// Appear gives the file a name, which must be new. The error is EEXIST if it is not, and
// ErrMayReplace or ErrNeedsName if the file system cannot guarantee it in this way.
func (t *Temporary) Appear(name string) error {
	if t.Name == "" {
		return t.link(name)
	}
	err := Retry(func() error { return unix.Renameat2(t.dir, t.Name, t.dir, name, unix.RENAME_NOREPLACE) })
	switch err {
	case nil:
		t.Name = ""
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
		return ErrMayReplace
	}
	return err
}

// Replace gives the file a name, and replaces the file that has it, if any.
func (t *Temporary) Replace(name string) error {
	if t.Name == "" {
		hidden := hiddenName()
		if err := t.link(hidden); err != nil {
			return err
		}
		t.Name = hidden
	}
	err := Retry(func() error { return unix.Renameat(t.dir, t.Name, t.dir, name) })
	if err == nil {
		t.Name = ""
	}
	return err
}

// link gives the file a name. The error is ErrNeedsName if that is not possible,
// for example because there is no /proc.
func (t *Temporary) link(name string) error {
	err := Retry(func() error {
		return unix.Linkat(unix.AT_FDCWD, ProcPath(t.Fd), t.dir, name, unix.AT_SYMLINK_FOLLOW)
	})
	if err != nil && err != unix.EEXIST && !IsFull(err) {
		return ErrNeedsName
	}
	return err
}

// Remove removes the hidden name of a file that has not got its final name. A missing name is not
// an error.
func (t *Temporary) Remove() error {
	if t.Name == "" {
		return nil
	}
	if err := Retry(func() error { return unix.Unlinkat(t.dir, t.Name, 0) }); err != nil && err != unix.ENOENT {
		return err
	}
	t.Name = ""
	return nil
}

// IsFull reports whether an error means that there is no space for a file.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
