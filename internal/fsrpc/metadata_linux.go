package fsrpc

import (
	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/wire"
)

// Metadata returns the facts about path. Type, size and times are those of a
// link's target; without follow no component may be a link at all.
func Metadata(path string, follow bool) (wire.MetadataResult, error) {
	stat, link := followed, false
	if !follow {
		stat = unfollowed
	}
	st, err := stat(path)
	if err != nil {
		return wire.MetadataResult{}, &Error{err}
	}
	if follow {
		var self unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &self)
		link = err == nil && self.Mode&unix.S_IFMT == unix.S_IFLNK
	}
	return wire.MetadataResult{
		IsDirectory:  st.Mode&unix.S_IFMT == unix.S_IFDIR,
		IsFile:       st.Mode&unix.S_IFMT == unix.S_IFREG,
		IsSymlink:    link,
		Size:         st.Size,
		CreatedAtMs:  millis(st.Btime),
		ModifiedAtMs: millis(st.Mtime),
	}, nil
}

const wanted = unix.STATX_BASIC_STATS | unix.STATX_BTIME

func followed(path string) (st unix.Statx_t, err error) {
	err = unix.Statx(unix.AT_FDCWD, path, 0, wanted, &st)
	return st, err
}

// unfollowed looks at path in one step: a link that appears on the way cannot
// lead it elsewhere.
func unfollowed(path string) (st unix.Statx_t, err error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err == unix.ELOOP { // a link on the way, not at the end
		return st, unix.ENOTDIR
	}
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, wanted, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return st, ErrSymlink
	}
	return st, err
}

// millis is a time in Unix milliseconds, 0 if unknown.
func millis(t unix.StatxTimestamp) int64 { return t.Sec*1000 + int64(t.Nsec)/1e6 }
