package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// FS returns the tree below a directory of the executor as an [fs.FS]. It also implements
// fs.StatFS, fs.ReadDirFS and fs.ReadFileFS. If the connection is lost, its calls wait until
// the client has another one or has failed.
func (f *Files) FS(dir string) fs.FS { return &tree{f, dir} }

type tree struct {
	files *Files
	dir   string
}

var (
	_ fs.StatFS     = (*tree)(nil)
	_ fs.ReadDirFS  = (*tree)(nil)
	_ fs.ReadFileFS = (*tree)(nil)
)

func (t *tree) ctx() context.Context { return t.files.client.Lifetime() }

// path is the path on the executor of a name of the tree.
func (t *tree) path(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	dir := t.dir
	if strings.HasPrefix(dir, "file:") {
		uri, err := wire.ParsePathURI(dir)
		if err != nil {
			return "", &fs.PathError{Op: op, Path: name, Err: err}
		}
		dir = t.files.native(uri.String())
	}
	if name == "." {
		return dir, nil
	}
	return strings.TrimRight(dir, `/\`) + "/" + name, nil
}

// renamed replaces the path in an error by a name of the tree.
func renamed(err error, name string) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: name, Err: e.Err}
	}
	return err
}

// Stat implements fs.StatFS.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	info, err := t.stat("stat", name)
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (t *tree) stat(op, name string) (FileInfo, error) {
	path, err := t.path(op, name)
	if err != nil {
		return FileInfo{}, err
	}
	info, err := t.files.Stat(t.ctx(), path)
	if err != nil {
		return FileInfo{}, renamed(err, name)
	}
	if name == "." {
		info.name = name
	}
	return info, nil
}

// ReadFile implements fs.ReadFileFS.
func (t *tree) ReadFile(name string) ([]byte, error) {
	path, err := t.path("read", name)
	if err != nil {
		return nil, err
	}
	data, err := t.files.ReadFile(t.ctx(), path)
	return data, renamed(err, name)
}

// ReadDir implements fs.ReadDirFS.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	path, err := t.path("readdir", name)
	if err != nil {
		return nil, err
	}
	entries, err := t.files.ReadDir(t.ctx(), path)
	return entries, renamed(err, name)
}

// Open implements fs.FS.
func (t *tree) Open(name string) (fs.File, error) {
	info, err := t.stat("open", name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return &directory{tree: t, name: name, info: info}, nil
	}
	path, err := t.path("open", name)
	if err != nil {
		return nil, err
	}
	file, err := t.files.Open(t.ctx(), path)
	if err != nil {
		return nil, renamed(err, name)
	}
	return file, nil
}

// A directory is an open directory of a tree.
type directory struct {
	tree   *tree
	name   string
	info   FileInfo
	listed bool
	rest   []fs.DirEntry
}

var _ fs.ReadDirFile = (*directory)(nil)

func (d *directory) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *directory) Close() error               { return nil }
func (d *directory) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a directory")}
}

// ReadDir implements fs.ReadDirFile.
func (d *directory) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.listed {
		entries, err := d.tree.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.rest, d.listed = entries, true
	}
	if n <= 0 {
		n = len(d.rest)
	} else if len(d.rest) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.rest))
	some := d.rest[:n:n]
	d.rest = d.rest[n:]
	return some, nil
}
