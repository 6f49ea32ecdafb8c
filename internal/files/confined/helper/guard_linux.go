package helper

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// A guard serves file requests by the rules. For changes it passes real paths and
// forbids following links, so that the checked path is the changed one, even if
// links are moved meanwhile.
type guard struct {
	judge *sandbox.Judge
	files files.Files // does the work
}

func notFile(name string) error {
	return files.NewError(wire.CodeInvalidRequest, "path `"+strings.ToValidUTF8(name, "\uFFFD")+"` is not a file")
}

var errNotRegular = files.NewError(wire.CodeInvalidRequest, "path is not a regular file")

// mayRead checks access to content.
func (g *guard) mayRead(real string) error {
	if j := g.judge.Decide(real); j.Ruled && j.Access == sandbox.Deny {
		return unix.EACCES
	}
	return nil
}

// mayLook checks access to the facts about a path. The facts about a mask may
// be seen.
func (g *guard) mayLook(real string) error {
	if j := g.judge.Decide(real); j.Ruled && j.Access == sandbox.Deny && !j.Masked {
		return unix.EACCES
	}
	return nil
}

// mayWrite checks a change.
func (g *guard) mayWrite(real string) error {
	switch j := g.judge.Decide(real); {
	case j.Ruled && j.Access == sandbox.Deny:
		return unix.EACCES
	case !j.Writable():
		return unix.EROFS
	}
	return nil
}

// mayFind returns the error for a path of which more than the last component
// is missing.
func (g *guard) mayFind(s *resolvedPath) error {
	switch j := g.judge.Decide(s.real); {
	case j.Ruled && j.Access == sandbox.Deny:
		return unix.EACCES
	case g.held(s):
		return unix.EROFS
	}
	return unix.ENOENT
}

// held reports whether a command would find a placeholder at a missing path: the
// name must not be created, and the directory is writable.
func (g *guard) held(s *resolvedPath) bool {
	if !g.judge.Decide(s.real).Absent {
		return false
	}
	above := s.real
	for range s.missing {
		above = path.Dir(above)
	}
	return g.judge.Decide(above).Writable()
}

// Open opens a regular file for reading: first with O_PATH and then, if it is a
// regular file and may be read, the same file again.
func (g *guard) Open(_ context.Context, name string, follow bool) (*os.File, error) {
	s, err := g.look(name, follow)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := g.mayRead(s.real); err != nil {
		return nil, err
	}
	switch {
	case s.kind() == unix.S_IFREG:
	case follow:
		return nil, notFile(name)
	case s.kind() == unix.S_IFLNK:
		return nil, unix.ELOOP
	default:
		return nil, errNotRegular
	}
	return open(s.magic(), unix.O_RDONLY, name)
}

func open(path string, flags int, name string) (*os.File, error) {
	fd, err := at.Openat(unix.AT_FDCWD, path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// look finds an existing file.
func (g *guard) look(name string, follow bool) (*resolvedPath, error) {
	s, err := find(name, lastLink(follow))
	if err == nil && !s.exists() {
		return nil, unix.ENOENT
	}
	return s, err
}

// Replace creates or empties a file.
func (g *guard) Replace(_ context.Context, name string) (*os.File, error) {
	s, err := g.toWrite(name, true)
	if err != nil {
		return nil, err
	}
	defer s.close()
	switch {
	case !s.exists() || s.kind() == unix.S_IFREG:
	case s.kind() == unix.S_IFIFO:
		if f, err := open(s.magic(), unix.O_WRONLY|unix.O_NONBLOCK, name); err != nil {
			return nil, err
		} else {
			f.Close()
		}
		return nil, notFile(name)
	default:
		return nil, notFile(name)
	}
	f, err := makeFile(s.real, unix.O_TRUNC, 0o666, name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, notFile(name)
	}
	return f, nil
}

// toWrite finds a path to write to, and checks it.
func (g *guard) toWrite(name string, follow bool) (*resolvedPath, error) {
	s, err := find(name, lastLink(follow))
	if err != nil {
		return nil, err
	}
	switch {
	case s.missing > 1:
		err = g.mayFind(s)
	case s.exists() && s.kind() == unix.S_IFLNK:
		err = unix.ELOOP
	case s.exists() && s.kind() == unix.S_IFDIR:
		if err = g.mayRead(s.real); err == nil {
			err = unix.EISDIR
		}
	case s.exists() && s.kind() == unix.S_IFCHR && strings.HasPrefix(s.real, "/dev/"):
		err = g.mayRead(s.real) // the devices of a sandbox are harmless, and keep no data
	default:
		err = g.mayWrite(s.real)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// WriteFile replaces the content of a file.
func (g *guard) WriteFile(ctx context.Context, name string, data []byte, follow bool) error {
	s, err := g.toWrite(name, follow)
	if err != nil {
		return err
	}
	defer s.close()
	switch {
	case !s.exists() || s.kind() == unix.S_IFREG:
		return g.files.WriteFile(ctx, s.real, data, false)
	case s.kind() == unix.S_IFCHR:
		f, err := open(s.magic(), unix.O_WRONLY|unix.O_NONBLOCK, name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Write(data)
		return err
	case !follow && s.kind() == unix.S_IFIFO:
		return unix.ENXIO
	}
	return notFile(name)
}

// CreateDirectory makes a directory.
func (g *guard) CreateDirectory(ctx context.Context, name string, recursive, follow bool) error {
	s, err := find(name, lastLink(follow))
	if err != nil {
		return err
	}
	defer s.close()
	switch {
	case s.dangling:
		return unix.EEXIST
	case s.exists():
		if g.judge.Decide(s.real).Absent {
			return unix.EROFS // the name is only a placeholder
		}
		if follow && (s.kind() != unix.S_IFDIR || !recursive) {
			return unix.EEXIST
		}
		return g.files.CreateDirectory(ctx, s.real, recursive, false)
	case s.missing > 1 && !recursive:
		return g.mayFind(s)
	}
	for at, n := s.real, s.missing; n > 0; at, n = path.Dir(at), n-1 {
		if err := g.mayWrite(at); err != nil {
			return err
		}
	}
	return g.files.CreateDirectory(ctx, s.real, recursive, false)
}

// Metadata returns the facts about a path.
func (g *guard) Metadata(ctx context.Context, name string, follow bool) (wire.MetadataResult, error) {
	s, err := find(name, allLinks)
	if err != nil && follow {
		return wire.MetadataResult{}, err
	}
	if err == nil {
		s.close()
		if err := g.mayLook(s.real); err != nil && s.exists() {
			return wire.MetadataResult{}, err
		}
	}
	return g.files.Metadata(ctx, name, follow)
}

// Canonicalize returns the real path.
func (g *guard) Canonicalize(_ context.Context, name string) (string, error) {
	s, err := g.look(name, true)
	if err != nil {
		return "", err
	}
	defer s.close()
	return s.real, g.mayLook(s.real)
}

// ReadDirectory lists a directory.
func (g *guard) ReadDirectory(ctx context.Context, name string) ([]wire.DirectoryEntry, error) {
	s, err := g.look(name, true)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := g.mayRead(s.real); err != nil {
		return nil, err
	}
	return g.files.ReadDirectory(ctx, s.real)
}

// Walk lists everything below a directory. Files that only a pattern hides are
// left out, because no mount hides them.
func (g *guard) Walk(ctx context.Context, name string, options wire.WalkOptions) (wire.WalkResult, error) {
	s, err := g.look(name, true)
	if err != nil {
		return wire.WalkResult{}, err
	}
	defer s.close()
	if err := g.mayLook(s.real); err != nil {
		return wire.WalkResult{}, err
	}
	result, err := g.files.Walk(ctx, name, options)
	if err != nil || !g.judge.HasGlobs() {
		return result, err
	}
	visible := result.Entries[:0]
	shown := make(map[string]bool) // directories
	for _, entry := range result.Entries {
		if uri, err := wire.ParsePathURI(entry.Path); err == nil {
			if at, err := uri.Native(); err == nil {
				dir := path.Dir(at)
				if _, known := shown[dir]; !known {
					shown[dir] = g.shows(dir)
				}
				if !shown[dir] {
					continue
				}
			}
		}
		visible = append(visible, entry)
	}
	result.Entries = visible
	return result, nil
}

// shows reports whether the content of a directory may be seen; links in its path are
// followed.
func (g *guard) shows(dir string) bool {
	s, err := g.look(dir, true)
	if err != nil {
		return false
	}
	defer s.close()
	return g.mayRead(s.real) == nil
}

// Remove removes a name, not the target of a link.
func (g *guard) Remove(ctx context.Context, name string, how files.RemoveHow) error {
	follow := innerLinks
	if !how.Follow {
		follow = noLinks
	}
	s, err := find(name, follow)
	if err != nil {
		return err
	}
	defer s.close()
	if s.exists() || g.held(s) {
		if err := g.mayWrite(s.real); err != nil {
			return err
		}
	}
	if how.Recursive && s.exists() && g.judge.HasGlobs() {
		if err := g.mayRemoveAll(ctx, s.real); err != nil {
			return err
		}
	}
	return g.files.Remove(ctx, s.real, how)
}

// mayRemoveAll checks a tree. Files that only a pattern hides would be removed with
// it, because no mount protects them.
func (g *guard) mayRemoveAll(ctx context.Context, root string) error {
	return filepath.WalkDir(root, func(at string, _ fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if denied := g.mayRead(at); denied != nil {
			return denied
		}
		if err != nil {
			return fs.SkipDir // the removal reports it
		}
		return nil
	})
}
