package placeholder

import (
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/files/at"
)

var (
	errMoved      = errors.New("it was replaced")
	errLocked     = errors.New("it is locked: somebody may be about to remove it")
	errExists     = errors.New("the name exists and is no placeholder")
	errLink       = errors.New("it is a link now")
	errUnreadable = errors.New("it belongs to somebody else, who may remove it, and it cannot be read to see whether it is empty")
)

// asChange makes a ChangedError of what says that the host is not as it was.
func asChange(path string, err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, errMoved, errLocked, errExists, errLink:
		return &ChangedError{path, err}
	}
	return err
}

// A lockedFile is an open placeholder, or what may be one of another ledger, with a
// lock on the object itself: shared while somebody builds on it, exclusive to
// take it away. That works between ledgers that know nothing of each other, and
// ends with the process.
type lockedFile struct {
	fd int
	id identity
}

// open opens what was seen at a dirEntry, without a lock. It never waits.
func (s dirEntry) open(seen fileStat, flags int) (*lockedFile, error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if seen.mode.IsDir() {
		flags |= unix.O_DIRECTORY
	}
	fd, err := at.Openat(s.parent, s.name, flags, 0)
	if err != nil {
		return nil, err
	}
	now, err := statAt(fd, "", unix.AT_EMPTY_PATH)
	if err == nil && now.id != seen.id {
		err = errMoved
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &lockedFile{fd, now.id}, nil
}

// openOurs opens a placeholder of this ledger. Some network file systems want a
// file to be open for writing before they lock it exclusively.
func (s dirEntry) openOurs(seen fileStat) (*lockedFile, error) {
	if seen.mode.IsDir() {
		return s.open(seen, unix.O_RDONLY)
	}
	return s.open(seen, unix.O_RDWR)
}

// openLocked opens a placeholder of this ledger and takes the shared lock.
func (s dirEntry) openLocked(seen fileStat) (*lockedFile, error) {
	f, err := s.openOurs(seen)
	if err != nil {
		return nil, err
	}
	if err := f.lock(s, filelock.Shared); err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// lock takes or converts the lock without waiting. Then it looks whether the
// name still leads to the object: whoever takes it away has the exclusive lock
// only until he has done so. After an error there is no lock.
func (f *lockedFile) lock(s dirEntry, mode filelock.Mode) error {
	err := filelock.Try(f.fd, mode)
	if err == filelock.ErrHeld {
		return errLocked
	}
	if err != nil {
		return err
	}
	now, err := s.stat()
	if err == nil && now.id != f.id {
		err = errMoved
	}
	if err != nil {
		f.unlock()
	}
	return err
}

// unlock is explicit, because a child that is being started shares the lock
// until it runs its program.
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

// path is where the object is now; false: nowhere.
func (f *lockedFile) path() (string, bool) {
	path, err := at.PathOf(f.fd)
	return path, err == nil && checkPath(path) == nil && !strings.HasSuffix(path, at.Deleted)
}

// show lets everybody read a placeholder, as whoever builds on it has to open
// it. Where modes cannot be set, others who cannot read it are told so.
func (f *lockedFile) makeReadable(seen fileStat) {
	want := uint32(fileMode)
	if seen.mode.IsDir() {
		want = dirMode
	}
	if seen.perm&0o777 != want {
		unix.Fchmod(f.fd, seen.perm&^0o777|want)
	}
}

// guard keeps something that exists from being taken away by another ledger,
// as long as the lockedFile is there. No lockedFile and no error: it is no placeholder, so
// nobody will.
//
// It can only be one if it is empty. A lock that the host has on an empty file
// for reasons of its own looks like somebody who removes it.
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

// unguard gives a guard up, unless Close was here.
func (l *Ledger) unguard(f *lockedFile) {
	l.mu.Lock()
	held := l.guards[f]
	delete(l.guards, f)
	l.mu.Unlock()
	if held {
		f.release()
	}
}

// settleTime is how long a server may take to let everybody read a placeholder that it
// has made, or to remove one that it has locked. settlePause is between two looks.
const (
	settleTime  = 500 * time.Millisecond
	settlePause = 10 * time.Millisecond
)

// guardOrWait is guard, but waits for up to settleTime while another user's server may be
// making or removing a placeholder. An object of another user that stays closed or locked
// for longer is not guarded: its owner can remove it at any time. If it were refused, that
// user could keep all others from starting anything in a shared directory.
func (s dirEntry) guardOrWait() (*lockedFile, error) {
	for deadline := time.Now().Add(settleTime); ; time.Sleep(settlePause) {
		seen, err := s.stat()
		if err != nil {
			return nil, err
		}
		f, err := s.guard(seen)
		otherUser := seen.uid != os.Geteuid() && seen.uid != 0
		switch {
		case !otherUser || err != errUnreadable && err != errLocked:
			return f, err
		case err == errUnreadable && time.Since(time.Unix(0, seen.since)) > settleTime, time.Now().After(deadline):
			return nil, nil
		}
	}
}

func (s dirEntry) guard(seen fileStat) (*lockedFile, error) {
	switch {
	case !seen.there:
		return nil, unix.ENOENT
	case seen.mode&os.ModeSymlink != 0:
		return nil, errLink
	case !seen.mayBeEmpty():
		return nil, nil
	}
	f, err := s.open(seen, unix.O_RDONLY)
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
		err = f.lock(s, filelock.Shared)
	}
	if !empty || err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// mayBeEmpty is what can be told without opening it: false means that it is no
// empty directory or file.
func (s fileStat) mayBeEmpty() bool {
	if s.mode.IsDir() {
		return s.links <= 2 // each subdirectory is one more, on most file systems
	}
	return s.mode == 0 && s.size == 0
}

// empty reports whether what is open has no content.
func (f *lockedFile) empty(seen fileStat) (bool, error) {
	if seen.mode == 0 {
		return seen.size == 0, nil
	}
	return emptyDir(f.fd)
}
