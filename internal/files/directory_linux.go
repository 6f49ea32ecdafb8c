package files

import (
	"context"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/wire"
)

// ReadDirectory lists a directory, in the order of the system. Dangling links
// are left out.
func (Direct) ReadDirectory(ctx context.Context, path string) ([]wire.DirectoryEntry, error) {
	path, err := clean(path, true)
	if err != nil {
		return nil, failed(err)
	}
	names, err := nameAt{unix.AT_FDCWD, path}.list(true, listBuffer)
	if err != nil {
		return nil, failed(err)
	}
	defer names.close()
	entries, err := names.entries(ctx)
	return entries, failed(err)
}

// entries returns the entries of the listed directory.
func (l *listing) entries(ctx context.Context) ([]wire.DirectoryEntry, error) {
	entries := []wire.DirectoryEntry{}
	for count := 0; ; {
		raw, kind, err := l.next(ctx)
		if err != nil {
			return nil, err
		}
		if raw == nil {
			if count > MaxDirectory {
				return nil, errDirectorySize(count)
			}
			return entries, nil
		}
		name := string(raw)
		if kind, err = l.typeOf(name, kind, true); err != nil {
			continue
		}
		if count++; count <= MaxDirectory {
			entries = append(entries, wire.DirectoryEntry{
				FileName: lossy(name), IsDirectory: kind == unix.DT_DIR, IsFile: kind == unix.DT_REG,
			})
		}
	}
}

// CreateDirectory makes a directory. With recursive it also makes missing
// parents, and the directory may exist.
func (Direct) CreateDirectory(_ context.Context, path string, recursive, follow bool) error {
	path, err := clean(path, follow)
	if err != nil {
		return failed(err)
	}
	switch {
	case recursive && follow:
		return failed(makeAll(path))
	case recursive:
		return failed(makeAllUnlinked(path))
	case path == "/" && !follow:
		return failed(errDirectoryExists)
	case path == "/":
		return failed(unix.EEXIST)
	}
	p, err := find(path, follow)
	if err != nil {
		return failed(err)
	}
	defer p.close()
	return failed(mkdirat(p.dir, p.name))
}

func mkdirat(dir int, name string) error {
	return at.Retry(func() error { return unix.Mkdirat(dir, name, 0o777) })
}

// makeAll makes path and its missing parents, and follows existing links. Other
// processes may make the same directories at the same time.
func makeAll(path string) error {
	missing := []string{path} // the deepest first
	for len(missing) > 0 {
		last := missing[len(missing)-1]
		err := mkdirat(unix.AT_FDCWD, last)
		if err == unix.ENOENT && last != "/" && len(missing) < unix.PathMax {
			if parent := filepath.Dir(last); !isDirectory(unix.AT_FDCWD, parent) {
				missing = append(missing, parent)
				continue
			}
			err = mkdirat(unix.AT_FDCWD, last) // the parent was made meanwhile, or nothing can be created in it
		}
		if err != nil && !isDirectory(unix.AT_FDCWD, last) {
			return err
		}
		missing = missing[:len(missing)-1]
	}
	return nil
}

func isDirectory(dir int, name string) bool {
	var st unix.Stat_t
	return at.Retry(func() error { return unix.Fstatat(dir, name, &st, 0) }) == nil && kind(st) == unix.S_IFDIR
}

// makeAllUnlinked makes path and its missing parents, and enters no link.
func makeAllUnlinked(path string) error {
	const step = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir, err := at.Openat(unix.AT_FDCWD, "/", step, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(dir) }()
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if name == "" {
			continue
		}
		next, err := at.Openat(dir, name, step, 0)
		if err == unix.ENOENT {
			if err := mkdirat(dir, name); err != nil && err != unix.EEXIST {
				return err
			}
			next, err = at.Openat(dir, name, step, 0)
		}
		if err != nil {
			return err
		}
		unix.Close(dir)
		dir = next
	}
	return nil
}
