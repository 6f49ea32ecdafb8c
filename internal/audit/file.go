package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// The defaults of a Config.
const (
	DefaultMaxSize = 64 << 20
	DefaultKeep    = 5
)

// checkTime is how often a file looks whether another program has moved it.
const checkTime = time.Second

// A file is a file that is rotated: NAME becomes NAME.1, NAME.1 becomes NAME.2, and so on. Only this user can read it. It is for one
// goroutine.
type file struct {
	path    string
	maxSize int64
	keep    int

	f       *os.File
	size    int64
	checked time.Time
}

func openFile(path string, maxSize int64, keep int) (*file, error) {
	f := &file{path: path, maxSize: maxSize, keep: keep}
	return f, f.open()
}

// open opens the file for appending. A line that another program has left unfinished is finished.
func (f *file) open() error {
	opened, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil && info.Size() > 0 {
		last := []byte{0}
		if _, err = opened.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			_, err = opened.WriteString("\n")
		}
	}
	if err != nil {
		opened.Close()
		return err
	}
	size, err := opened.Seek(0, io.SeekEnd)
	if err != nil {
		opened.Close()
		return err
	}
	f.f, f.size, f.checked = opened, size, time.Now()
	return nil
}

// Write appends whole lines, or nothing.
func (f *file) Write(lines []byte) (int, error) {
	if err := f.prepare(len(lines)); err != nil {
		return 0, err
	}
	n, err := f.f.Write(lines)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, f.f.Truncate(f.size))
		}
		return 0, err
	}
	f.size += int64(n)
	return n, nil
}

// prepare opens the file again if another program has moved or removed it, and rotates it if n more bytes are too many.
func (f *file) prepare(n int) error {
	if f.f != nil && time.Since(f.checked) >= checkTime {
		f.checked = time.Now()
		here, err := os.Stat(f.path)
		own, _ := f.f.Stat() // of an open descriptor: cannot fail
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(here, own) {
			f.drop()
		}
	}
	if f.f != nil && f.size > 0 && f.size+int64(n) > f.maxSize {
		if err := f.rotate(); err != nil {
			return fmt.Errorf("rotate: %w", err)
		}
	}
	if f.f == nil {
		return f.open()
	}
	return nil
}

// rotate moves the file and its predecessors. If that fails, the file stays.
func (f *file) rotate() error {
	for i := f.keep; i > 0; i-- {
		from := f.path
		if i > 1 {
			from += "." + strconv.Itoa(i-1)
		}
		if err := os.Rename(from, f.path+"."+strconv.Itoa(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if f.keep == 0 {
		if err := os.Remove(f.path); err != nil {
			return err
		}
	}
	f.drop()
	return nil
}

func (f *file) drop() {
	f.f.Close() // everything was written, or reported
	f.f = nil
}

func (f *file) Close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}
