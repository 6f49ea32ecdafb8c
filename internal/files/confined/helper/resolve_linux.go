package helper

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// maxLinks is how many dangling links are followed, as in the kernel.
const maxLinks = 40

// A spot is where a path leads.
type spot struct {
	real    string // without links; what is missing is literal
	missing int    // how many components at the end of real do not exist

	dangling bool // the path ends in a link to something missing
	mode     uint32
	rdev     uint64
	fd       int // O_PATH; -1: missing
}

func (s *spot) exists() bool { return s.missing == 0 }

func (s *spot) kind() uint32 { return s.mode & unix.S_IFMT }

func (s *spot) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// magic is the way to what a descriptor of ours names.
func (s *spot) magic() string { return at.ProcPath(s.fd) }

// links says which links a path may have.
type links int

const (
	allLinks   links = iota
	innerLinks       // one at the end is not followed
	noLinks          // one on the way is ENOTDIR
)

// lastLink is allLinks if even a link at the end is followed.
func lastLink(follow bool) links {
	if follow {
		return allLinks
	}
	return noLinks
}

// find opens what a path names, without rights to read or write it, and reads its
// real path back. A link to where nothing is leads there all the same. The links of
// /proc that lead anywhere are not followed.
func find(name string, follow links) (*spot, error) { return findWithin(name, follow, maxLinks) }

func findWithin(name string, follow links, left int) (*spot, error) {
	fd, err := openPath(name, follow)
	switch {
	case err == nil:
		return opened(fd)
	case err != unix.ENOENT:
		return nil, err
	}
	dir, base := path.Split(strings.TrimRight(name, "/"))
	if dir == "" || base == "" || base == "." || base == ".." {
		return nil, unix.ENOENT
	}
	above := follow
	if above == innerLinks {
		above = allLinks
	}
	parent, err := findWithin(path.Clean(dir), above, left)
	if err != nil {
		return nil, err
	}
	defer parent.close()
	if parent.exists() {
		if parent.kind() != unix.S_IFDIR {
			return nil, unix.ENOTDIR
		}
		target, err := at.ReadLink(parent.fd, base)
		if err == nil && follow == allLinks {
			return followDangling(parent, target, left)
		}
	}
	return &spot{real: path.Join(parent.real, base), missing: parent.missing + 1, fd: -1}, nil
}

func openPath(name string, follow links) (int, error) {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if follow != allLinks {
		flags |= unix.O_NOFOLLOW
	}
	if len(name) >= unix.PathMax { // a search for what is missing would take too long
		return -1, unix.ENAMETOOLONG
	}
	if follow == noLinks {
		return at.OpenUnlinked(unix.AT_FDCWD, name, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := at.Openat2(unix.AT_FDCWD, name, &how)
	if err == unix.ENOSYS {
		// In the sandbox of another server, whose filter refuses openat2. What the links of
		// /proc lead to is judged by its real path, too.
		fd, err = at.Openat(unix.AT_FDCWD, name, flags, 0)
	}
	return fd, err
}

// makeFile opens a file to write, which is made if it is missing. No link leads there.
func makeFile(real string, flags int, mode uint32, name string) (*os.File, error) {
	dir, last, err := at.OpenParent(real)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	flags |= unix.O_WRONLY | unix.O_CREAT | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := at.Openat(dir, last, flags, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// followDangling finds out where a link would lead to that leads nowhere yet.
func followDangling(parent *spot, target string, left int) (*spot, error) {
	if left == 0 {
		return nil, unix.ELOOP
	}
	if !strings.HasPrefix(target, "/") {
		target = parent.real + "/" + target
	}
	s, err := findWithin(target, allLinks, left-1)
	if err == nil {
		s.dangling = true
	}
	return s, err
}

// opened describes an O_PATH descriptor, which it takes over.
func opened(fd int) (*spot, error) {
	s := &spot{fd: fd}
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil {
		s.mode, s.rdev = st.Mode, st.Rdev
		s.real, err = realPath(fd, st)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// realPath is where an open file lies. Unlike package files, which is going to use the path, the helper
// only judges by it, so it does not look whether the file still lies there. A removed file has no path.
func realPath(fd int, st unix.Stat_t) (string, error) {
	real, err := at.PathOf(fd)
	if err == nil && strings.HasSuffix(real, at.Deleted) {
		var now unix.Stat_t
		if unix.Lstat(real, &now) != nil || !at.Same(now, st) {
			err = unix.ENOENT
		}
	}
	return real, err
}
