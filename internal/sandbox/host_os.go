package sandbox

import (
	"io"
	"io/fs"
	"os"
)

// OS is the machine we run on.
type OS struct{}

// Lstat implements Host.
func (OS) Lstat(path string) (fs.FileMode, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

// Readlink implements Host.
func (OS) Readlink(path string) (string, error) { return os.Readlink(path) }

// ReadDir implements Host.
func (OS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// ReadFile implements Host. Only a regular file is read: opening another kind
// might block.
func (OS) ReadFile(path string, limit int) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, int64(limit)))
}

// CanCreate implements Host.
func (OS) CanCreate(dir string) bool { return canCreate(dir) }
