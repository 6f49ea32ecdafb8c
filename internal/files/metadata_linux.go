package files

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/wire"
)

// Metadata returns the facts about path.
func (Direct) Metadata(_ context.Context, path string, follow bool) (wire.MetadataResult, error) {
	return metadata(path, follow)
}

// metadata returns the facts about path. Type, size and times of a link are
// those of its target; without follow no component may be a link at all.
func metadata(path string, follow bool) (wire.MetadataResult, error) {
	path, err := clean(path, follow)
	if err != nil {
		return wire.MetadataResult{}, failed(err)
	}
	stat := unfollowed
	if follow {
		stat = followed
	}
	st, link, err := stat(path)
	if err != nil {
		return wire.MetadataResult{}, failed(err)
	}
	return facts(st, link), nil
}

func facts(st unix.Statx_t, link bool) wire.MetadataResult {
	mode := uint32(st.Mode) & wire.MaxMode
	return wire.MetadataResult{
		IsDirectory:  st.Mode&unix.S_IFMT == unix.S_IFDIR,
		IsFile:       st.Mode&unix.S_IFMT == unix.S_IFREG,
		IsSymlink:    link,
		Size:         st.Size,
		CreatedAtMs:  millis(st.Btime),
		ModifiedAtMs: millis(st.Mtime),
		TetherMode:   &mode,
	}
}

const wanted = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// followed returns the status of the target of path, and whether path itself
// is a link.
func followed(path string) (st unix.Statx_t, link bool, err error) {
	err = statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, wanted, &st)
	if err == nil && isLink(st) {
		link, err = true, statx(unix.AT_FDCWD, path, 0, wanted, &st)
	}
	return st, link, err
}

// unfollowed resolves path in one step, so that a link that appears meanwhile
// is not followed.
func unfollowed(path string) (st unix.Statx_t, link bool, err error) {
	p, err := find(path, false)
	if err != nil {
		return st, false, err
	}
	defer p.close()
	err = statx(p.dir, p.name, unix.AT_SYMLINK_NOFOLLOW, wanted, &st)
	if err == nil && isLink(st) {
		err = ErrSymlink
	}
	return st, false, err
}

func isLink(st unix.Statx_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFLNK }

func statx(dir int, name string, flags, mask int, st *unix.Statx_t) error {
	return at.Retry(func() error { return unix.Statx(dir, name, flags, mask, st) })
}

// millis returns a time in Unix milliseconds, 0 if unknown.
func millis(t unix.StatxTimestamp) int64 { return t.Sec*1000 + int64(t.Nsec)/1e6 }
