package watch

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	errChanged  = errors.New("changed while the watch was set up")
	errExists   = errors.New("path exists")
	errLink     = errors.New("path contains a symbolic link")
	errNotDir   = errors.New("a file is in the way")
	errTooMany  = errors.New("too many watches")
	errTooLong  = errors.New("path too long")
	errSilentFS = errors.New("the filesystem does not report changes")
)

// A chain is the existing part of a path, from the root on. None of its
// components is a symbolic link.
type chain struct {
	links   []component
	present bool // the whole path must exist; else it must not
}

// A component is an existing directory or file of a path.
type component struct {
	fd    int // O_PATH; closed with the chain
	path  string
	next  string // the next name in the path; empty at its end
	stamp stamp
}

// follow opens the existing part of a clean absolute path. The whole path must
// exist if wantPresent is set, and must not otherwise. The caller closes the chain.
func follow(path string, wantPresent bool) (*chain, error) {
	c := &chain{present: wantPresent}
	if err := c.open(path); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *chain) open(path string) error {
	if len(path) >= unix.PathMax {
		return errTooLong
	}
	dir, name, at := unix.AT_FDCWD, "/", "/"
	for _, next := range append(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), "") {
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && !c.present {
			return nil
		}
		if err != nil {
			return os.NewSyscallError("openat", err)
		}
		l := component{fd: fd, path: at, next: next}
		err = l.examine()
		c.links = append(c.links, l)
		if err != nil {
			return err
		}
		if next != "" && !l.stamp.isDir() {
			return errNotDir
		}
		dir, name, at = fd, next, strings.TrimSuffix(at, "/")+"/"+next
	}
	if !c.present {
		return errExists
	}
	return nil
}

// examine refuses files that cannot be watched.
func (l *component) examine() error {
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return errLink
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(l.fd, &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if silent(int64(fs.Type)) {
		return errSilentFS
	}
	l.stamp = newStamp(&st)
	return nil
}

// silent reports file systems whose files change without an event: those that
// the kernel generates, and those that other machines or processes change too.
func silent(magic int64) bool {
	switch magic {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
		unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.BPF_FS_MAGIC,
		unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.CODA_SUPER_MAGIC:
		return true
	}
	return false
}

func (c *chain) close() {
	for _, l := range c.links {
		unix.Close(l.fd) // O_PATH: no data can be lost
	}
}

// same reports whether two chains lead over the same files.
func (c *chain) same(d *chain) bool {
	if len(c.links) != len(d.links) {
		return false
	}
	for i := range c.links {
		a, b := c.links[i], d.links[i]
		if a.stamp.dev != b.stamp.dev || a.stamp.ino != b.stamp.ino {
			return false
		}
	}
	last := len(c.links) - 1
	return !c.present || c.links[last].stamp == d.links[last].stamp
}

// A stamp distinguishes two states of a file.
type stamp struct {
	dev, ino     uint64
	links        uint64
	mode         uint32
	uid, gid     uint32
	size         int64
	mtime, ctime unix.Timespec
	onlyRights   bool // size and times are ignored
}

func newStamp(st *unix.Stat_t) stamp {
	return stamp{
		dev: uint64(st.Dev), ino: st.Ino, links: uint64(st.Nlink), mode: st.Mode, uid: st.Uid, gid: st.Gid,
		size: st.Size, mtime: st.Mtim, ctime: st.Ctim,
	}
}

func stampOf(path string) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return stamp{}, os.NewSyscallError("lstat", err)
	}
	return newStamp(&st), nil
}

func (s stamp) isDir() bool { return s.mode&unix.S_IFMT == unix.S_IFDIR }

// rights leaves out the fields that change with a directory's entries.
func (s stamp) rights() stamp {
	s.links, s.size, s.mtime, s.ctime, s.onlyRights = 0, 0, unix.Timespec{}, unix.Timespec{}, true
	return s
}

// differs compares a stamp with a later one. A new hard link is not a change of
// the file, although its change time is updated.
func (s stamp) differs(later stamp) bool {
	if s.onlyRights {
		later = later.rights()
	} else if s.links != later.links {
		later.links, later.ctime = s.links, s.ctime
	}
	return s != later
}
