//go:build !linux

package files

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tetherexec/tether/wire"
)

// Here paths are checked before they are used: a link that appears between the
// two is followed. All files are written in place.

// unlinked checks that no component of path is a link; the last one counts only if
// whole.
func unlinked(path string, whole bool) error {
	for at := path; ; {
		above := filepath.Dir(at)
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if at != path {
				return syscall.ENOTDIR
			}
			if whole {
				return ErrSymlink
			}
		}
		if above == at {
			return nil
		}
		at = above
	}
}

// prepare cleans path and checks it for links if they may not be followed.
func prepare(path string, follow, whole bool) (string, error) {
	path, err := clean(path, follow)
	if err != nil || follow {
		return path, err
	}
	return path, unlinked(path, whole)
}

// metadata returns the facts about path. Creation times are unknown here.
func (Direct) Metadata(_ context.Context, path string, follow bool) (wire.MetadataResult, error) {
	return metadata(path, follow)
}

// metadata returns the facts about path. Creation times are unknown here.
func metadata(path string, follow bool) (wire.MetadataResult, error) {
	path, err := prepare(path, follow, true)
	if err != nil {
		return wire.MetadataResult{}, failed(err)
	}
	self, err := os.Lstat(path)
	if err != nil {
		return wire.MetadataResult{}, failed(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return wire.MetadataResult{}, failed(err)
	}
	mode := uint32(info.Mode().Perm())
	return wire.MetadataResult{
		IsDirectory: info.IsDir(), IsFile: info.Mode().IsRegular(), IsSymlink: self.Mode()&fs.ModeSymlink != 0,
		Size: uint64(info.Size()), ModifiedAtMs: info.ModTime().UnixMilli(), TetherMode: &mode,
	}, nil
}

// Open opens a regular file to read.
func (Direct) Open(_ context.Context, path string, follow bool) (*os.File, error) {
	path, err := prepare(path, follow, true)
	if err != nil {
		return nil, failed(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, failed(err)
	}
	if !info.Mode().IsRegular() {
		if !follow {
			return nil, failed(errNotRegular)
		}
		return nil, failed(errNotFile(path))
	}
	file, err := os.Open(path)
	return file, failed(err)
}

// Replace creates or empties a file, to be written.
func (Direct) Replace(_ context.Context, path string) (*os.File, error) {
	path, err := clean(path, true)
	if err != nil {
		return nil, failed(err)
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, failed(errNotFile(path))
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	return file, failed(err)
}

// WriteFile replaces the content of a file, in place.
func (Direct) WriteFile(_ context.Context, path string, data []byte, follow bool) error {
	path, err := prepare(path, follow, true)
	if err != nil {
		return failed(err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return failed(errNotFile(path))
	}
	return failed(os.WriteFile(path, data, 0o666))
}

// CreateDirectory makes a directory. With recursive it also makes missing
// parents, and the directory may exist.
func (Direct) CreateDirectory(_ context.Context, path string, recursive, follow bool) error {
	path, err := prepare(path, follow, recursive)
	if err != nil {
		return failed(err)
	}
	if recursive {
		return failed(os.MkdirAll(path, 0o777))
	}
	return failed(os.Mkdir(path, 0o777))
}

// Canonicalize returns the path of an existing file, without links.
func (Direct) Canonicalize(_ context.Context, path string) (string, error) {
	path, err := clean(path, true)
	if err != nil {
		return "", failed(err)
	}
	path, err = filepath.EvalSymlinks(path)
	return path, failed(err)
}

// ReadDirectory lists a directory. Dangling links are left out.
func (Direct) ReadDirectory(_ context.Context, path string) ([]wire.DirectoryEntry, error) {
	path, err := clean(path, true)
	if err != nil {
		return nil, failed(err)
	}
	found, err := os.ReadDir(path)
	if err != nil {
		return nil, failed(err)
	}
	entries := []wire.DirectoryEntry{}
	for _, entry := range found {
		if info, err := os.Stat(filepath.Join(path, entry.Name())); err == nil {
			entries = append(entries, wire.DirectoryEntry{
				FileName: lossy(entry.Name()), IsDirectory: info.IsDir(), IsFile: info.Mode().IsRegular(),
			})
		}
	}
	if len(entries) > MaxDirectory {
		return nil, failed(errDirectorySize(len(entries)))
	}
	return entries, nil
}

// Remove removes a file, a link itself or a directory.
func (Direct) Remove(_ context.Context, path string, how RemoveHow) error {
	if how.Recursive && !how.Follow {
		return failed(errRecursiveNoFollow)
	}
	path, err := prepare(path, how.Follow, true)
	if err != nil {
		return failed(err)
	}
	_, err = os.Lstat(path)
	switch {
	case os.IsNotExist(err) && how.Force:
		return nil
	case err != nil:
		return failed(err)
	case how.Recursive:
		return failed(os.RemoveAll(path))
	}
	return failed(os.Remove(path))
}

// Copy copies a file, a link itself or, with recursive, a directory.
func (Direct) Copy(ctx context.Context, source, destination string, recursive bool) error {
	source, err := clean(source, true)
	if err != nil {
		return failed(err)
	}
	if destination, err = clean(destination, true); err != nil {
		return failed(err)
	}
	info, err := os.Lstat(source)
	if err != nil {
		return failed(err)
	}
	if info.IsDir() {
		if !recursive {
			return failed(errCopyDirectory)
		}
		if inside(source, destination) {
			return failed(errCopyIntoSelf)
		}
		if err := os.MkdirAll(destination, 0o777); err != nil {
			return failed(err)
		}
	}
	return failed(copyOne(ctx, source, destination, info, false))
}

// inside reports whether destination, of which the last part may be missing, is
// the directory source or lies below it.
func inside(source, destination string) bool {
	root, err := filepath.EvalSymlinks(source)
	if err != nil {
		return false
	}
	existing, missing := destination, ""
	for filepath.Dir(existing) != existing {
		if real, err := filepath.EvalSymlinks(existing); err == nil {
			existing = real
			break
		}
		existing, missing = filepath.Dir(existing), joinPath(filepath.Base(existing), missing)
	}
	below, err := filepath.Rel(root, joinPath(existing, missing))
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

func copyOne(ctx context.Context, source, destination string, info fs.FileInfo, skip bool) error {
	if err := cancelled(ctx); err != nil {
		return err
	}
	switch {
	case info.Mode().IsRegular():
		return copyContent(source, destination, info)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(source)
		if err != nil {
			return err
		}
		return os.Symlink(target, destination)
	case !info.IsDir() && skip:
		return nil
	case !info.IsDir():
		return errCopyKind
	}
	if err := os.Mkdir(destination, 0o777); err != nil {
		if there, _ := os.Stat(destination); there == nil || !there.IsDir() {
			return err
		}
	}
	found, err := os.ReadDir(source)
	if err != nil {
		return err
	}
	for _, entry := range found {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := copyOne(ctx, filepath.Join(source, entry.Name()), filepath.Join(destination, entry.Name()), info, true); err != nil {
			return err
		}
	}
	return nil
}

func copyContent(source, destination string, info fs.FileInfo) error {
	if there, err := os.Stat(destination); err == nil && os.SameFile(there, info) {
		return nil
	}
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(destination, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closing := out.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return os.Chmod(destination, info.Mode().Perm())
}
