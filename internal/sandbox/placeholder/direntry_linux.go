package placeholder

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// Modes of placeholders, independent of the umask. A program of the host may
// use one: `git init` fills an empty .git.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// A dirEntry is a name in an open directory. So no other process can replace the
// directory, for example by a link, between two steps.
type dirEntry struct {
	parent int // O_PATH
	name   string
}

// openDirEntry opens the parent of a path; no link is followed on the way.
func openDirEntry(p string) (dirEntry, error) {
	dir, name, err := at.OpenParent(p)
	return dirEntry{dir, name}, err
}

func (de dirEntry) close() { unix.Close(de.parent) }

// A fileStat is the status of a dirEntry. The zero fileStat: it does not
// exist.
type fileStat struct {
	mode  fs.FileMode // type only
	perm  uint32      // the rest of the mode
	there bool
	id    inodeID
	uid   int
	links uint32
	size  uint64
	since int64 // ns since 1970: birth if known, else the last change of the content
}

func (de dirEntry) stat() (fileStat, error) {
	return statAt(de.parent, de.name, unix.AT_SYMLINK_NOFOLLOW)
}

func statAt(dir int, name string, flags int) (fileStat, error) {
	var st unix.Statx_t
	err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	switch {
	case err == unix.ENOENT:
		return fileStat{}, nil
	case err != nil:
		return fileStat{}, err
	}
	seen := fileStat{
		there: true,
		mode:  fs.ModeIrregular,
		perm:  uint32(st.Mode &^ unix.S_IFMT),
		id:    inodeID{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino},
		uid:   int(st.Uid),
		links: st.Nlink,
		size:  st.Size,
		since: nanoseconds(st.Mtime),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		seen.mode = fs.ModeDir
	case unix.S_IFREG:
		seen.mode = 0
	case unix.S_IFLNK:
		seen.mode = fs.ModeSymlink
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		seen.id.born = nanoseconds(st.Btime)
		seen.since = seen.id.born
	}
	return seen, nil
}

func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// An ownership says to which party the file at a name belongs.
type ownership int

const (
	absent  ownership = iota
	ours              // made for the entry; it may have got content
	foreign           // not made for the entry
)

// ownershipOf returns the owner of the file with the status seen, given an entry
// whose registry file was last written at the time written. In the phase making
// the identity is not known. Then the file is ours if the maker could have made
// it: it has the same user and kind, and is not older than the entry.
func ownershipOf(e registryEntry, seen fileStat, written int64) ownership {
	fits := seen.mode == 0
	if e.want.Dir {
		fits = seen.mode == fs.ModeDir
	}
	switch {
	case !seen.there:
		return absent
	case e.phase == made && fits && e.id.same(seen.id):
		return ours
	case e.phase == making && fits && seen.uid == os.Geteuid() && seen.since >= written:
		return ours
	}
	return foreign
}

// empty reports whether the file or directory with the status seen has no
// content.
func (de dirEntry) empty(seen fileStat) (bool, error) {
	if seen.mode == 0 {
		return seen.size == 0, nil
	}
	fd, err := at.Openat(de.parent, de.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	return emptyDir(fd)
}

// emptyDir reports whether a directory that was just opened has no entries.
func emptyDir(fd int) (bool, error) {
	var buf [512]byte // the longest entry has 280 bytes
	for {
		n, err := at.RetryInt(func() (int, error) { return unix.ReadDirent(fd, buf[:]) })
		if n <= 0 || err != nil {
			return err == nil, err
		}
		// ParseDirent leaves out "." and "..".
		if _, count, _ := unix.ParseDirent(buf[:n], 1, nil); count > 0 {
			return false, nil
		}
	}
}

// make makes the placeholder and returns its status.
func (de dirEntry) make(dir bool) (fileStat, error) {
	var err error
	if dir {
		err = at.Retry(func() error { return unix.Mkdirat(de.parent, de.name, dirMode) })
	} else {
		var fd int
		fd, err = at.Openat(de.parent, de.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, fileMode)
		if err == nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return fileStat{}, err
	}
	seen, err := de.stat()
	if err == nil && (!seen.there || seen.mode != 0 && !seen.mode.IsDir() || seen.mode.IsDir() != dir) {
		err = errReplaced
	}
	return seen, err
}

// remove removes an empty directory or a file.
func (de dirEntry) remove(dir bool) error {
	flags := 0
	if dir {
		flags = unix.AT_REMOVEDIR
	}
	return at.Retry(func() error { return unix.Unlinkat(de.parent, de.name, flags) })
}
