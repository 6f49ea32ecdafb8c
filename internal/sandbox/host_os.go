package sandbox

import (
	"io"
	"io/fs"
	"os"
)

// OS is the machine that this program runs on.
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

// ReadFile implements Host. It reads only a regular file. If something else, such as
// a FIFO, has replaced the file meanwhile, opening it does not block.
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
