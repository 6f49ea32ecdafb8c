package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// openFlags are the flags of every open for writing: it does not wait for the
// other end of a FIFO, and does not make a terminal the controlling terminal.
const openFlags = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// Replace creates or empties a file, to be written.
func (Direct) Replace(_ context.Context, path string) (*os.File, error) {
	path, err := clean(path, true)
	if err != nil {
		return nil, failed(err)
	}
	p, err := find(path, true)
	if err != nil {
		return nil, failed(err)
	}
	defer p.close()
	fd, st, err := p.openToWrite(0o666)
	if err != nil {
		return nil, failed(err)
	}
	if kind(st) != unix.S_IFREG {
		unix.Close(fd)
		return nil, failed(errNotFile(path))
	}
	if err := at.Retry(func() error { return unix.Ftruncate(fd, 0) }); err != nil && st.Size > 0 {
		unix.Close(fd)
		return nil, failed(err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openToWrite opens the file at p and follows links, or creates a file with mode. It
// does not truncate. Directories, sockets and FIFOs without a reader are errors.
func (p nameAt) openToWrite(mode uint32) (int, unix.Stat_t, error) {
	fd, st, err := p.look(true)
	if err == unix.ENOENT { // missing, or a dangling link
		return p.openOrMake(mode)
	}
	if err != nil {
		return -1, st, err
	}
	defer unix.Close(fd)
	switch kind(st) {
	case unix.S_IFDIR:
		return -1, st, unix.EISDIR
	case unix.S_IFSOCK:
		return -1, st, unix.ENXIO
	}
	opened, err := p.reopen(fd, st, unix.O_WRONLY)
	return opened, st, err
}

// openOrMake lets the kernel create the file to which p leads.
func (p nameAt) openOrMake(mode uint32) (fd int, st unix.Stat_t, err error) {
	fd, err = at.Openat(p.dir, p.name, openFlags|unix.O_CREAT, mode)
	if err != nil {
		return -1, st, err
	}
	err = unix.Fstat(fd, &st)
	if err == nil && kind(st) == unix.S_IFREG {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// WriteFile replaces the content of a file. A plain file with one name is replaced
// by a rename, so that it always has either the old content or the new; a new file
// appears in the same way. Content of up to a page that covers the old content is
// written in one write. If a rename would change more than the content (other hard
// links, an owner or attributes that we cannot set, a directory that we cannot
// write), the file is written in place, after its space was reserved.
func (Direct) WriteFile(_ context.Context, path string, data []byte, follow bool) error {
	path, err := clean(path, follow)
	if err != nil {
		return failed(err)
	}
	if path == "/" && !follow {
		return failed(errNoEntry)
	}
	p, err := find(path, follow)
	if err != nil {
		return failed(err)
	}
	defer p.close()
	for range maxAppearances {
		if err = p.write(path, data, follow); !errors.Is(err, errAppeared) && err != errReplaced {
			break
		}
	}
	if err == errReplaced {
		return nil // as if this write had come just before the last of the others
	}
	return failed(err)
}

// maxAppearances is how often a file may appear between the look that did not
// find it and its creation, until that is an error. It is also how often another
// program may replace the file while it is being replaced here.
const maxAppearances = 8

var errAppeared = fmt.Errorf("another program has created the file: %w", unix.EEXIST)

func (p nameAt) write(path string, data []byte, follow bool) error {
	fd, st, err := p.look(false)
	if err == unix.ENOENT {
		return p.create(data)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if kind(st) != unix.S_IFLNK {
		return p.overwrite(fd, st, p, path, data, follow)
	}
	if !follow {
		return unix.ELOOP
	}
	return p.writeThrough(path, data)
}

// writeThrough writes the target of the link at p. The kernel follows the link
// and applies its own rules about links of other users.
func (p nameAt) writeThrough(path string, data []byte) error {
	fd, st, err := p.look(true)
	if err == unix.ENOENT {
		fd, st, err := p.openOrMake(0o666)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if kind(st) != unix.S_IFREG {
			return errNotFile(path)
		}
		return writeOver(fd, data, false)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	target := nameAt{dir: -1}
	if kind(st) == unix.S_IFREG && !p.isProc() {
		if found, ok := locate(fd); ok {
			defer found.close()
			target = found
		}
	}
	return p.overwrite(fd, st, target, path, data, true)
}

// isProc reports whether p is one of the kernel's own links, which lead to a file
// and not to a name.
func (p nameAt) isProc() bool {
	var st unix.Statfs_t
	return unix.Fstatfs(p.dir, &st) != nil || st.Type == unix.PROC_SUPER_MAGIC
}

// locate finds the place of an open file.
func locate(fd int) (nameAt, bool) {
	path, ok := realPath(fd)
	if !ok {
		return nameAt{}, false
	}
	p, err := find(path, false)
	if err != nil {
		return nameAt{}, false
	}
	if !p.has(fd) {
		p.close()
		return nameAt{}, false
	}
	return p, true
}

// overwrite gives the existing file of the O_PATH descriptor fd a new content.
// The file is opened before anything else is tried, so that missing write
// permission fails here. target is the place of the file itself, with dir -1 if
// that is unknown.
func (p nameAt) overwrite(fd int, st unix.Stat_t, target nameAt, path string, data []byte, follow bool) error {
	switch kind(st) {
	case unix.S_IFDIR:
		return unix.EISDIR
	case unix.S_IFSOCK:
		return unix.ENXIO
	case unix.S_IFIFO:
		if follow {
			return cmp.Or(mayAccess(fd, unix.W_OK), errNotFile(path))
		}
	}
	file, err := p.reopen(fd, st, unix.O_WRONLY)
	if err != nil {
		return err
	}
	switch {
	case kind(st) == unix.S_IFREG:
		err = target.change(file, data)
	case follow: // a device
		err = writeAll(file, data)
	default:
		err = errNotRegular
	}
	return cmp.Or(err, unix.Close(file)) // a network file system reports a full disk here
}

// change gives a regular file, opened for writing, a new content. p is its
// place, with dir -1 if that is unknown.
func (p nameAt) change(file int, data []byte) error {
	if done, err := writeAtOnce(file, data); done || err != nil {
		return err
	}
	if p.dir < 0 {
		return writeOver(file, data, false)
	}
	err := p.replace(file, data)
	if full := at.IsFull(err); full || errors.Is(err, errInPlace) {
		return writeOver(file, data, full)
	}
	return err
}

// atOnce is how many bytes one write changes as a whole or not at all: a
// page.
const atOnce = 4096

// writeAtOnce writes in place if the data covers the old content and fits into
// a page. Such a write is never partial, and needs no new file, which is the
// slow part of a replacement. It returns false if the data does not fit.
func writeAtOnce(file int, data []byte) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return false, err
	}
	if len(data) > atOnce || st.Size > int64(len(data)) {
		return false, nil
	}
	if err := writeAll(file, data); err != nil {
		return true, err
	}
	if err := unix.Fstat(file, &st); err != nil || st.Size == int64(len(data)) {
		return true, err
	}
	// Another process has written more in the meantime.
	return true, at.Retry(func() error { return unix.Ftruncate(file, int64(len(data))) })
}

// writeOver writes a regular file in place. The space is reserved first, so that
// a full disk costs no content. On a disk that is known to be full, it writes
// only if no space is needed and the file system overwrites blocks in place.
func writeOver(fd int, data []byte, full bool) error {
	var before unix.Stat_t
	if err := unix.Fstat(fd, &before); err != nil {
		return err
	}
	if full && (int64(len(data)) > before.Size || !overwritesInPlace(fd)) {
		return unix.ENOSPC
	}
	if len(data) > 0 {
		err := at.Retry(func() error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(data))) })
		if at.IsFull(err) {
			_ = unix.Ftruncate(fd, before.Size) // release what was reserved beyond the end
			return err
		}
		if full && err != nil {
			return unix.ENOSPC
		}
	}
	if err := writeAll(fd, data); err != nil {
		return err
	}
	return at.Retry(func() error { return unix.Ftruncate(fd, int64(len(data))) })
}

func overwritesInPlace(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	return st.Type == unix.EXT4_SUPER_MAGIC || st.Type == unix.TMPFS_MAGIC
}

// writeAll writes data at fd's position. A device without room is an error.
func writeAll(fd int, data []byte) error {
	const piece = 1 << 30 // more than a system call takes would be cut anyway
	for len(data) > 0 {
		var n int
		err := at.Retry(func() (err error) {
			n, err = unix.Write(fd, data[:min(len(data), piece)])
			return err
		})
		if err != nil {
			return err
		}
		if n <= 0 {
			return unix.EIO
		}
		data = data[n:]
	}
	return nil
}
