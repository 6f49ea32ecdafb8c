package placeholder

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/files/at"
)

// A record is an open registry file. The lock belongs to the open file, and a
// child that is being started shares it until it executes its program. So a
// lock is released explicitly, not by closing alone.
type record struct {
	fd   int
	file string // its path
}

// openRecord opens a registry file. It never blocks, even if the file is a
// FIFO.
func openRecord(file string, flags int) (record, error) {
	flags |= unix.O_RDWR | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := at.Openat(unix.AT_FDCWD, file, flags, 0o600)
	if err != nil {
		return record{}, fmt.Errorf("registry file %s: %w", filepath.Base(file), err)
	}
	return record{fd, file}, nil
}

// lock takes or converts the lock without waiting. It returns false if
// another process has the lock; then this record has none.
func (r record) lock(mode filelock.Mode) (bool, error) {
	switch err := filelock.Try(r.fd, mode); err {
	case nil:
		return true, nil
	case filelock.ErrHeld:
		return false, nil
	default:
		return false, fmt.Errorf("lock registry file %s: %w", filepath.Base(r.file), err)
	}
}

func (r record) close() {
	filelock.Unlock(r.fd)
	unix.Close(r.fd)
}

// remove removes the file and closes the record. The caller has the exclusive
// lock and has seen that the file has its name.
func (r record) remove() {
	unix.Unlink(r.file)
	r.close()
}

// stat returns when the file was last written and how long it is. linked is
// false if the file has lost its name: then the lock does not count.
func (r record) stat() (written, size int64, linked bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(r.fd, &st); err != nil {
		return 0, 0, false, fmt.Errorf("registry file: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, 0, false, fmt.Errorf("registry file %s: not a regular file", filepath.Base(r.file))
	}
	return st.Mtim.Nano(), st.Size, st.Nlink > 0, nil
}

// A reading is an entry and the status of its file.
type reading struct {
	registryEntry
	written int64
	size    int64
	linked  bool
}

// read reads the entry. The error is errDamaged if the file has no entry for
// its name.
func (r record) read() (reading, error) {
	written, size, linked, err := r.stat()
	got := reading{written: written, size: size, linked: linked}
	if err != nil || !linked || size == 0 {
		return got, err
	}
	if size > maxEntry {
		return got, errDamaged
	}
	data := make([]byte, size)
	n := 0
	for n < len(data) {
		m, err := at.RetryInt(func() (int, error) { return unix.Pread(r.fd, data[n:], int64(n)) })
		if err != nil {
			return got, fmt.Errorf("read registry file: %w", err)
		}
		if m == 0 {
			break
		}
		n += m
	}
	got.registryEntry, err = decode(data[:n])
	if err == nil && registryName(got.want.Path) != filepath.Base(r.file) {
		err = errDamaged
	}
	return got, err
}

// add appends a line, in one write.
func (r record) add(line string) error {
	n, err := at.RetryInt(func() (int, error) { return unix.Write(r.fd, []byte(line)) })
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write registry file: %w", err)
	}
	return nil
}

// cut shortens the file to its first line. The caller has the exclusive lock.
// Holds, which reads without a lock, may append a "real" line right after; the
// line is about an earlier placeholder and is ignored.
func (r record) cut(first string) error {
	return at.Retry(func() error { return unix.Ftruncate(r.fd, int64(len(first))) })
}

// maxWait bounds the wait for another server that is about to make or remove a
// placeholder. It takes well under a millisecond, unless its disk is slow or
// the process is stopped.
const maxWait = 5 * time.Second

// A backoff waits between attempts, up to maxWait in all.
type backoff struct {
	until time.Time
	pause time.Duration
}

// wait waits before the next attempt; false after maxWait.
func (w *backoff) wait() bool {
	if w.until.IsZero() {
		w.until, w.pause = time.Now().Add(maxWait), 50*time.Microsecond
	}
	if time.Now().After(w.until) {
		return false
	}
	time.Sleep(w.pause)
	w.pause = min(2*w.pause, 5*time.Millisecond)
	return true
}

// lockRegistry locks the registry, so that only the caller changes an entry that
// others use too. This is rare: a placeholder in use was removed from outside.
func lockRegistry(dir string) (unlock func(), err error) {
	fd, err := at.Openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), maxWait, errBusy)
	defer cancel()
	if err := filelock.Wait(ctx, fd, filelock.Exclusive); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("lock registry: %w", err)
	}
	return record{fd, dir}.close, nil
}
