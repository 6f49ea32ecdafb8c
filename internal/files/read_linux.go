package files

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// Open opens a regular file to read.
func (Direct) Open(_ context.Context, path string, follow bool) (*os.File, error) {
	file, err := open(path, follow, nameAt.look)
	return file, failed(err)
}

// A lookFunc is [place.look], or a function that also checks the file that it
// finds.
type lookFunc func(p nameAt, follow bool) (int, unix.Stat_t, error)

func open(path string, follow bool, look lookFunc) (*os.File, error) {
	path, err := clean(path, follow)
	if err != nil {
		return nil, err
	}
	if path == "/" && !follow {
		return nil, errNoEntry
	}
	if follow { // the kernel resolves the path in one step
		return nameAt{unix.AT_FDCWD, path}.open(path, follow, look)
	}
	p, err := find(path, follow)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.open(path, follow, look)
}

// open opens the regular file at p for reading; path is its name in errors.
func (p nameAt) open(path string, follow bool, look lookFunc) (*os.File, error) {
	fd, st, err := look(p, follow)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	switch kind(st) {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return nil, unix.ELOOP
	case unix.S_IFSOCK:
		return nil, unix.ENXIO
	default:
		if err := mayAccess(fd, unix.R_OK); err != nil {
			return nil, err
		}
		return nil, notFile(path, follow)
	}
	opened, err := p.reopen(fd, st, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(opened), path), nil
}

// notFile returns the refusal of anything but a regular file.
func notFile(path string, follow bool) error {
	if follow {
		return errNotFile(path)
	}
	return errNotRegular
}

// mayAccess reports whether opening fd's file again would be denied, without
// opening it. A kernel that cannot tell (before 5.8) denies nothing here.
func mayAccess(fd int, mode uint32) error {
	err := unix.Faccessat(fd, "", mode, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	if err == unix.EACCES {
		return err
	}
	return nil
}

// Canonicalize returns the path of an existing file, without links.
func (Direct) Canonicalize(_ context.Context, path string) (string, error) {
	path, err := clean(path, true)
	if err != nil {
		return "", failed(err)
	}
	fd, err := at.Openat(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", failed(err)
	}
	defer unix.Close(fd)
	if real, ok := realPath(fd); ok {
		return real, nil
	}
	real, err := filepath.EvalSymlinks(path)
	return real, failed(err)
}

// realPath returns the path of fd's file according to the kernel, if the file is
// still there.
func realPath(fd int) (string, bool) {
	real, err := at.PathOf(fd)
	if err != nil {
		return "", false
	}
	var here, there unix.Stat_t
	if unix.Fstat(fd, &here) != nil || unix.Lstat(real, &there) != nil || !at.Same(here, there) {
		return "", false
	}
	return real, true
}
