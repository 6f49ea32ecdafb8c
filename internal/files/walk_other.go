//go:build !linux

package files

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
)

// A walkRoot is the directory where a walk starts.
type walkRoot struct {
	path   string
	follow bool
	id     any // the canonical path
}

// openWalk examines the root of a walk. It returns nil if the root exists but
// is not a directory, or is a link that may not be followed: then there is
// nothing below.
func openWalk(path string, follow bool) (*walkRoot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	self, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || self.Mode()&fs.ModeSymlink != 0 && !follow {
		return nil, nil
	}
	real, err := filepath.EvalSymlinks(path)
	return &walkRoot{path, follow, real}, err
}

func (*walkRoot) close() {}

// list returns the first keep names, in order, of the directory below the root.
func (r *walkRoot) list(_ context.Context, below string, keep int) ([]*walkName, error) {
	dir := joinPath(r.path, below)
	found, err := os.ReadDir(dir)
	var names []*walkName
	for _, entry := range found {
		name := &walkName{name: entry.Name()}
		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path)
		link := entry.Type()&fs.ModeSymlink != 0
		switch {
		case err != nil && link:
			continue
		case err != nil:
			name.err = err
		case info.IsDir() && (r.follow || !link):
			name.kind = walkDirectory
			if r.follow {
				name.id, name.err = filepath.EvalSymlinks(path)
			}
		case info.Mode().IsRegular() && !link:
			name.kind = walkFile
		}
		names = append(names, name)
	}
	return smallest(names, keep), err
}
