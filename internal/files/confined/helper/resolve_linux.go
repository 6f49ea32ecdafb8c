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

// A resolvedPath is the result of resolving a path.
type resolvedPath struct {
	real    string // without links; missing components are literal
	missing int    // how many components at the end of real do not exist

	dangling bool // the path ends in a link to something missing
	mode     uint32
	rdev     uint64
	fd       int // O_PATH; -1: missing
}

func (s *resolvedPath) exists() bool { return s.missing == 0 }

func (s *resolvedPath) kind() uint32 { return s.mode & unix.S_IFMT }

func (s *resolvedPath) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// magic returns a path to the open file.
func (s *resolvedPath) magic() string { return at.ProcPath(s.fd) }

// links says which links in a path are followed.
type links int

const (
	allLinks   links = iota
	innerLinks       // a link at the end is not followed
	noLinks          // a link in the path is ENOTDIR
)

// lastLink returns allLinks if follow, else noLinks.
func lastLink(follow bool) links {
	if follow {
		return allLinks
	}
	return noLinks
}

// find opens a path with O_PATH and reads its real path back. The target of a
// dangling link is found too. The magic links of /proc are not followed.
func find(name string, follow links) (*resolvedPath, error) {
	return findWithin(name, follow, maxLinks)
}

func findWithin(name string, follow links, left int) (*resolvedPath, error) {
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
	return &resolvedPath{real: path.Join(parent.real, base), missing: parent.missing + 1, fd: -1}, nil
}

func openPath(name string, follow links) (int, error) {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if follow != allLinks {
		flags |= unix.O_NOFOLLOW
	}
	if len(name) >= unix.PathMax { // searching for missing components would take too long
		return -1, unix.ENAMETOOLONG
	}
	if follow == noLinks {
		return at.OpenUnlinked(unix.AT_FDCWD, name, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := at.Openat2(unix.AT_FDCWD, name, &how)
	if err == unix.ENOSYS {
		// This helper runs in the sandbox of another server, whose filter refuses openat2.
		// The targets of /proc's magic links are checked by their real paths, too.
		fd, err = at.Openat(unix.AT_FDCWD, name, flags, 0)
	}
	return fd, err
}

// makeFile opens a file for writing and creates it if it is missing. It follows no
// link.
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

// followDangling resolves a dangling link to its missing target.
func followDangling(parent *resolvedPath, target string, left int) (*resolvedPath, error) {
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
func opened(fd int) (*resolvedPath, error) {
	s := &resolvedPath{fd: fd}
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

// realPath returns the path of an open file. Package files uses the path afterwards; the helper only
// checks it against the rules, so it does not verify that the file is still there. A removed file has
// no path.
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
