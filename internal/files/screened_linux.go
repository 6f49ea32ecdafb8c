package files

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/wire"
)

// Screened is [Direct] for requests that only read, with a check of each file.
//
// Check gets the descriptor of each file and directory before the request returns
// anything about it, so a link that is moved meanwhile changes nothing. The descriptor
// may be open with O_PATH only. An error of Check fails the request; below the root of a
// walk it fails only that directory. [ErrElsewhere] always fails the whole request. It is
// also the error for paths through the kernel's own links (/proc/self/fd), which lead to
// files that may have no name.
type Screened struct {
	Check func(fd int) error
}

// look is [place.look] with the check.
func (s Screened) look(p nameAt, follow bool) (int, unix.Stat_t, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if !follow {
		how.Flags |= unix.O_NOFOLLOW
	}
	var st unix.Stat_t
	fd, err := at.Openat2(p.dir, p.name, &how)
	switch err {
	case nil:
	case unix.ELOOP: // a loop, or one of the kernel's own links
		if fd, _, err := p.look(follow); err != nil {
			return -1, st, err
		} else {
			unix.Close(fd)
		}
		return -1, st, ErrElsewhere
	case unix.ENOSYS, unix.EPERM: // an old kernel, or a system call filter
		return -1, st, ErrElsewhere
	default:
		return -1, st, err
	}
	err = s.Check(fd)
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// Open is [Files.Open].
func (s Screened) Open(_ context.Context, path string, follow bool) (*os.File, error) {
	file, err := open(path, follow, s.look)
	return file, failed(err)
}

// Metadata is [Files.Metadata].
func (s Screened) Metadata(_ context.Context, path string, follow bool) (wire.MetadataResult, error) {
	result, err := s.metadata(path, follow)
	return result, failed(err)
}

func (s Screened) metadata(path string, follow bool) (result wire.MetadataResult, err error) {
	if path, err = clean(path, follow); err != nil {
		return result, err
	}
	p := nameAt{unix.AT_FDCWD, path}
	if !follow {
		if p, err = find(path, false); err != nil {
			return result, err
		}
		defer p.close()
	}
	fd, st, err := s.look(p, false)
	if err != nil {
		return result, err
	}
	defer func() { unix.Close(fd) }()
	link := kind(st) == unix.S_IFLNK
	if link {
		if !follow {
			return result, ErrSymlink
		}
		target, _, err := s.look(p, true)
		if err != nil {
			return result, err
		}
		unix.Close(fd)
		fd = target
	}
	var about unix.Statx_t
	if err := statx(fd, "", unix.AT_EMPTY_PATH, wanted, &about); err != nil {
		return result, err
	}
	return facts(about, link), nil
}

// Canonicalize is [Files.Canonicalize].
func (s Screened) Canonicalize(_ context.Context, path string) (string, error) {
	fd, err := s.find(path)
	if err != nil {
		return "", failed(err)
	}
	defer unix.Close(fd)
	real, ok := realPath(fd)
	if !ok {
		return "", failed(ErrElsewhere)
	}
	return real, nil
}

// find opens the target of a path with O_PATH.
func (s Screened) find(path string) (int, error) {
	path, err := clean(path, true)
	if err != nil {
		return -1, err
	}
	fd, _, err := s.look(nameAt{unix.AT_FDCWD, path}, true)
	return fd, err
}

// ReadDirectory is [Files.ReadDirectory].
func (s Screened) ReadDirectory(ctx context.Context, path string) ([]wire.DirectoryEntry, error) {
	fd, err := s.find(path)
	if err != nil {
		return nil, failed(err)
	}
	defer unix.Close(fd)
	names, err := nameAt{unix.AT_FDCWD, at.ProcPath(fd)}.list(true, listBuffer)
	if err != nil {
		return nil, failed(err)
	}
	defer names.close()
	entries, err := names.entries(ctx)
	return entries, failed(err)
}

// Walk is [Files.Walk] without following links.
func (s Screened) Walk(ctx context.Context, path string, options wire.WalkOptions) (wire.WalkResult, error) {
	if options.FollowDirectorySymlinks {
		return wire.WalkResult{}, failed(ErrElsewhere)
	}
	result, err := walk(ctx, path, options, s.openWalk)
	return result, failed(err)
}

func (s Screened) openWalk(path string, follow bool) (*walkRoot, error) {
	target, err := s.find(path) // a dangling link is an error, other links are not directories
	if err != nil {
		return nil, err
	}
	unix.Close(target)
	fd, _, err := s.look(nameAt{unix.AT_FDCWD, path}, follow)
	if err != nil {
		return nil, err
	}
	root, err := newWalk(fd, follow)
	if root != nil {
		root.check = s.Check
	}
	return root, err
}
