package placeholder

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/files/at"
)

var (
	errReplaced   = errors.New("it was replaced")
	errLocked     = errors.New("it is locked: another process may be about to remove it")
	errExists     = errors.New("the name exists and is not a placeholder")
	errLink       = errors.New("it is a link now")
	errUnreadable = errors.New("it belongs to another user, who may remove it, and it cannot be read to see whether it is empty")
)

// asChange returns a ChangedError if err means that the host has changed
// since the plan.
func asChange(path string, err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, errReplaced, errLocked, errExists, errLink:
		return &ChangedError{path, err}
	}
	return err
}

// A lockedFile is an open placeholder, or a file that may be a placeholder of
// another ledger, with a lock on the file or directory itself. The lock is shared
// while a sandbox depends on it, and exclusive to remove it. This works between
// ledgers that do not know each other, and ends with the process.
type lockedFile struct {
	fd int
	id inodeID
}

// open opens the file with the status seen, without a lock. It never blocks.
func (de dirEntry) open(seen fileStat, flags int) (*lockedFile, error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if seen.mode.IsDir() {
		flags |= unix.O_DIRECTORY
	}
	fd, err := at.Openat(de.parent, de.name, flags, 0)
	if err != nil {
		return nil, err
	}
	now, err := statAt(fd, "", unix.AT_EMPTY_PATH)
	if err == nil && now.id != seen.id {
		err = errReplaced
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &lockedFile{fd, now.id}, nil
}

// openOurs opens a placeholder of this ledger. Some network file systems need a
// file to be open for writing before they lock it exclusively.
func (de dirEntry) openOurs(seen fileStat) (*lockedFile, error) {
	if seen.mode.IsDir() {
		return de.open(seen, unix.O_RDONLY)
	}
	return de.open(seen, unix.O_RDWR)
}

// openLocked opens a placeholder of this ledger and takes the shared lock.
func (de dirEntry) openLocked(seen fileStat) (*lockedFile, error) {
	f, err := de.openOurs(seen)
	if err != nil {
		return nil, err
	}
	if err := f.lock(de, filelock.Shared); err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// lock takes or converts the lock without waiting. Then it checks whether the
// name still leads to the same file: another process may have removed the file and
// given up its exclusive lock just before. After an error there is no lock.
func (f *lockedFile) lock(de dirEntry, mode filelock.Mode) error {
	err := filelock.Try(f.fd, mode)
	if err == filelock.ErrHeld {
		return errLocked
	}
	if err != nil {
		return err
	}
	now, err := de.stat()
	if err == nil && now.id != f.id {
		err = errReplaced
	}
	if err != nil {
		f.unlock()
	}
	return err
}

// unlock is explicit, because a child that is being started shares the lock
// until it executes its program.
func (f *lockedFile) unlock() {
	if f != nil {
		filelock.Unlock(f.fd)
	}
}

func (f *lockedFile) release() {
	if f != nil {
		f.unlock()
		unix.Close(f.fd)
	}
}

// path returns the present path of the file; false if it has none.
func (f *lockedFile) path() (string, bool) {
	path, err := at.PathOf(f.fd)
	return path, err == nil && checkPath(path) == nil && !strings.HasSuffix(path, at.Deleted)
}

// makeReadable lets all users read a placeholder, because a ledger that
// guards it has to open it. If modes cannot be set, a user who cannot read it
// gets an error that says so.
func (f *lockedFile) makeReadable(seen fileStat) {
	want := uint32(fileMode)
	if seen.mode.IsDir() {
		want = dirMode
	}
	if seen.perm&0o777 != want {
		unix.Fchmod(f.fd, seen.perm&^0o777|want)
	}
}

// guard prevents another ledger from removing an existing file, as long as the lockedFile
// is open. If it returns neither a lockedFile nor an error, the file is not a placeholder,
// so no ledger removes it.
//
// Only an empty file or directory can be a placeholder. If a program of the host locks an
// empty file for its own reasons, guard cannot distinguish that from a removal.
func (l *Ledger) guard(path string) (*lockedFile, error) {
	de, err := openDirEntry(path)
	if err != nil {
		return nil, asChange(path, err)
	}
	defer de.close()
	f, err := de.guardOrWait()
	if f == nil || err != nil {
		return nil, asChange(path, err)
	}
	l.mu.Lock()
	switch {
	case l.closed:
		err = ErrClosed
	case l.full():
		err = ErrLimit
	default:
		l.guards[f] = true
	}
	l.mu.Unlock()
	if err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// unguard gives up a guard, unless Close has done so already.
func (l *Ledger) unguard(f *lockedFile) {
	l.mu.Lock()
	held := l.guards[f]
	delete(l.guards, f)
	l.mu.Unlock()
	if held {
		f.release()
	}
}

// settleTime is how long a server may take to make a new placeholder readable for all,
// or to remove one that it has locked. settlePause is the time between two checks.
const (
	settleTime  = 500 * time.Millisecond
	settlePause = 10 * time.Millisecond
)

// guardOrWait is tryGuard, but waits for up to settleTime while another user's server may
// be making or removing a placeholder. If a file of another user stays unreadable or locked
// for longer, it is not guarded, and that is not an error: its owner can remove it at any
// time. With an error, that user could keep all others from starting anything in a shared
// directory.
func (de dirEntry) guardOrWait() (*lockedFile, error) {
	for deadline := time.Now().Add(settleTime); ; time.Sleep(settlePause) {
		seen, err := de.stat()
		if err != nil {
			return nil, err
		}
		f, err := de.tryGuard(seen)
		otherUser := seen.uid != os.Geteuid() && seen.uid != 0
		switch {
		case !otherUser || err != errUnreadable && err != errLocked:
			return f, err
		case err == errUnreadable && time.Since(time.Unix(0, seen.since)) > settleTime, time.Now().After(deadline):
			return nil, nil
		}
	}
}

// tryGuard opens the file with the status seen and takes the shared lock. If the file
// is not empty, it is not a placeholder: tryGuard returns neither a lockedFile nor an
// error.
func (de dirEntry) tryGuard(seen fileStat) (*lockedFile, error) {
	switch {
	case !seen.there:
		return nil, unix.ENOENT
	case seen.mode&os.ModeSymlink != 0:
		return nil, errLink
	case !seen.mayBeEmpty():
		return nil, nil
	}
	f, err := de.open(seen, unix.O_RDONLY)
	if err == unix.EACCES {
		if seen.uid == os.Geteuid() {
			return nil, nil // our placeholders can be read
		}
		return nil, errUnreadable
	}
	if err != nil {
		return nil, err
	}
	empty, err := f.empty(seen)
	if empty && err == nil {
		err = f.lock(de, filelock.Shared)
	}
	if !empty || err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// mayBeEmpty returns false if the status alone shows that this is not an empty
// directory or file.
func (s fileStat) mayBeEmpty() bool {
	if s.mode.IsDir() {
		return s.links <= 2 // each subdirectory is one more, on most file systems
	}
	return s.mode == 0 && s.size == 0
}

// empty reports whether the open file or directory has no content.
func (f *lockedFile) empty(seen fileStat) (bool, error) {
	if seen.mode == 0 {
		return seen.size == 0, nil
	}
	return emptyDir(f.fd)
}

// stillEmpty reports whether the open directory has no entries. It may have been read before.
func (f *lockedFile) stillEmpty() bool {
	if _, err := unix.Seek(f.fd, 0, io.SeekStart); err != nil {
		return false
	}
	empty, err := emptyDir(f.fd)
	return empty && err == nil
}
