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

// ReadFile implements Host. Only a regular file is read. Another kind that takes its
// place meanwhile, such as a FIFO, does not hold the opening up.
func (OS) ReadFile(path string, limit int) ([]byte, error) {
	file, err := openAtOnce(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid}
	}
	return io.ReadAll(io.LimitReader(file, int64(limit)))
}

// CanCreate implements Host.
func (OS) CanCreate(dir string) bool { return canCreate(dir) }

// CanRemove implements Host.
func (OS) CanRemove(path string) bool { return canRemove(path) }

// Foreign implements Host.
func (OS) Foreign(path string) bool { return isForeign(path) }
