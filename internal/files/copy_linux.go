package files

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// copyPiece is how much of a file is copied between two checks of the
// context.
const copyPiece = 32 << 20

// Copy copies a file, a link itself or, with recursive, a directory; an existing
// directory at the destination is merged with it. A file that is copied onto
// itself stays as it is.
func (Direct) Copy(ctx context.Context, source, destination string, recursive bool) error {
	source, err := clean(source, true)
	if err != nil {
		return failed(err)
	}
	if destination, err = clean(destination, true); err != nil {
		return failed(err)
	}
	from, err := find(source, true)
	if err != nil {
		return failed(err)
	}
	defer from.close()
	fd, st, err := from.look(false)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	if kind(st) == unix.S_IFDIR {
		if !recursive {
			return failed(errCopyDirectory)
		}
		return failed(copyTree(ctx, from, fd, destination))
	}
	to, err := find(destination, true)
	if err != nil {
		return failed(err)
	}
	defer to.close()
	switch kind(st) {
	case unix.S_IFREG:
		err = copyFile(ctx, from, fd, st, to, destination)
	case unix.S_IFLNK:
		err = copyLink(from, to)
	default:
		err = errCopyKind
	}
	return failed(err)
}

func copyLink(from, to nameAt) error {
	target, err := at.ReadLink(from.dir, from.name)
	if err != nil {
		return err
	}
	return at.Retry(func() error { return unix.Symlinkat(target, to.dir, to.name) })
}

// copyFile copies the regular file of the O_PATH descriptor fd, found at from,
// with its permissions. path is the name of the destination in errors.
func copyFile(ctx context.Context, from nameAt, fd int, st unix.Stat_t, to nameAt, path string) error {
	in, err := from.reopen(fd, st, unix.O_RDONLY)
	if err != nil {
		return err
	}
	source := os.NewFile(uintptr(in), path)
	defer source.Close()
	out, old, err := to.openToWrite(st.Mode & 0o777)
	if kind(old) == unix.S_IFIFO && err == unix.ENXIO { // a FIFO without a reader is refused like any other FIFO
		return errNotFile(path)
	}
	if err != nil {
		return err
	}
	switch {
	case at.Same(st, old):
		unix.Close(out)
		return nil
	case kind(old) != unix.S_IFREG:
		defer unix.Close(out)
		if kind(old) == unix.S_IFIFO {
			return errNotFile(path)
		}
		return copyToDevice(ctx, source, out)
	}
	destination := os.NewFile(uintptr(out), path)
	err = unix.Fchmod(out, st.Mode&0o7777)
	if err == nil {
		err = destination.Truncate(0)
	}
	for err == nil {
		if err = cancelled(ctx); err == nil {
			_, err = io.CopyN(destination, source, copyPiece)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return cmp.Or(err, destination.Close())
}

func copyToDevice(ctx context.Context, source io.Reader, device int) error {
	buf := make([]byte, 64<<10)
	for {
		if err := cancelled(ctx); err != nil {
			return err
		}
		n, err := source.Read(buf)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = writeAll(device, buf[:n])
		}
		if err != nil {
			return err
		}
	}
}

// copyTree copies the directory of the O_PATH descriptor fd, found at from.
func copyTree(ctx context.Context, from nameAt, fd int, destination string) error {
	inside, err := leadsInto(fd, destination)
	if err != nil {
		return err
	}
	if inside {
		return errCopyIntoSelf
	}
	if err := makeAll(destination); err != nil {
		return err
	}
	to, err := at.Openat(unix.AT_FDCWD, destination, at.Directory, 0)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	t := &treeCopy{ctx: ctx}
	if err := unix.Fstat(to, &t.top); err != nil {
		return err
	}
	return t.directory(from, to, len(destination))
}

// leadsInto reports whether destination, of which the last part may be missing,
// is the directory fd or lies below it.
func leadsInto(fd int, destination string) (bool, error) {
	source, ok := realPath(fd)
	if !ok {
		return false, unix.ENOENT
	}
	existing, missing := destination, ""
	for {
		real, err := Direct{}.Canonicalize(context.Background(), existing)
		if err == nil {
			existing = real
			break
		}
		if existing == "/" {
			return false, err
		}
		missing = joinPath(filepath.Base(existing), missing)
		existing = filepath.Dir(existing)
	}
	inside, found := strings.CutPrefix(joinPath(existing, missing), source)
	return found && (inside == "" || inside[0] == '/' || source == "/"), nil
}

// A treeCopy is the copy of a directory in progress.
type treeCopy struct {
	ctx context.Context // of the request
	top unix.Stat_t     // the destination; it must not be found inside the source
}

// directory copies the content of the directory at from into the directory
// to. length is the length of to's path: a path longer than PATH_MAX is an
// error.
func (t *treeCopy) directory(from nameAt, to, length int) error {
	names, err := from.list(false, treeBuffer)
	if err != nil {
		return err
	}
	defer names.close()
	var self unix.Stat_t
	if err := unix.Fstat(names.fd, &self); err != nil {
		return err
	}
	if at.Same(self, t.top) {
		return errCopyIntoSelf
	}
	for {
		name, kind, err := names.next(t.ctx)
		if name == nil || err != nil {
			return err
		}
		if length+1+len(name) >= unix.PathMax {
			return unix.ENAMETOOLONG
		}
		if err := t.entry(nameAt{names.fd, string(name)}, kind, to, length); err != nil {
			return err
		}
	}
}

func (t *treeCopy) entry(from nameAt, dirent byte, to, length int) error {
	target := nameAt{to, from.name}
	switch dirent {
	case unix.DT_DIR:
		return t.subdirectory(from, target, length)
	case unix.DT_LNK:
		return copyLink(from, target)
	case unix.DT_REG, unix.DT_UNKNOWN:
	default:
		return nil
	}
	fd, st, err := from.look(false)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	switch kind(st) {
	case unix.S_IFREG:
		return copyFile(t.ctx, from, fd, st, target, from.name)
	case unix.S_IFDIR:
		return t.subdirectory(from, target, length)
	case unix.S_IFLNK:
		return copyLink(from, target)
	}
	return nil
}

func (t *treeCopy) subdirectory(from, to nameAt, length int) error {
	if err := mkdirat(to.dir, to.name); err != nil && !isDirectory(to.dir, to.name) {
		return err
	}
	fd, err := at.Openat(to.dir, to.name, at.Directory, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return t.directory(from, fd, length+1+len(to.name))
}
