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
	errMoved  = errors.New("it was replaced")
	errLocked = errors.New("it is locked: somebody may be about to remove it")
	errExists = errors.New("the name exists and is no placeholder")
	errLink   = errors.New("it is a link now")
	errOpaque = errors.New("it belongs to somebody else, who may remove it, and it cannot be read to see whether it is empty")
)

// asChange makes a ChangedError of what says that the host is not as it was.
func asChange(path string, err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, errMoved, errLocked, errExists, errLink:
		return &ChangedError{path, err}
	}
	return err
}

// A grip is an open placeholder, or what may be one of another ledger, with a
// lock on the object itself: shared while somebody builds on it, exclusive to
// take it away. That works between ledgers that know nothing of each other, and
// ends with the process.
type grip struct {
	fd int
	id identity
}

// open opens what was seen at a spot, without a lock. It never waits.
func (s spot) open(seen sight, flags int) (*grip, error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if seen.mode.IsDir() {
		flags |= unix.O_DIRECTORY
	}
	fd, err := at.Openat(s.parent, s.name, flags, 0)
	if err != nil {
		return nil, err
	}
	now, err := look(fd, "", unix.AT_EMPTY_PATH)
	if err == nil && now.id != seen.id {
		err = errMoved
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &grip{fd, now.id}, nil
}

// openOurs opens a placeholder of this ledger. Some network file systems want a
// file to be open for writing before they lock it exclusively.
func (s spot) openOurs(seen sight) (*grip, error) {
	if seen.mode.IsDir() {
		return s.open(seen, unix.O_RDONLY)
	}
	return s.open(seen, unix.O_RDWR)
}

// grasp opens a placeholder of this ledger and takes the shared lock.
func (s spot) grasp(seen sight) (*grip, error) {
	g, err := s.openOurs(seen)
	if err != nil {
		return nil, err
	}
	if err := g.lock(s, filelock.Shared); err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// lock takes or converts the lock without waiting. Then it looks whether the
// name still leads to the object: whoever takes it away has the exclusive lock
// only until he has done so. After an error there is no lock.
func (g *grip) lock(s spot, mode filelock.Mode) error {
	err := filelock.Try(g.fd, mode)
	if err == filelock.ErrHeld {
		return errLocked
	}
	if err != nil {
		return err
	}
	now, err := s.look()
	if err == nil && now.id != g.id {
		err = errMoved
	}
	if err != nil {
		g.unlock()
	}
	return err
}

// unlock is explicit, because a child that is being started shares the lock
// until it runs its program.
func (g *grip) unlock() {
	if g != nil {
		filelock.Unlock(g.fd)
	}
}

func (g *grip) release() {
	if g != nil {
		g.unlock()
		unix.Close(g.fd)
	}
}

// path is where the object is now; false: nowhere.
func (g *grip) path() (string, bool) {
	path, err := at.PathOf(g.fd)
	return path, err == nil && checkPath(path) == nil && !strings.HasSuffix(path, at.Deleted)
}

// show lets everybody read a placeholder, as whoever builds on it has to open
// it. Where modes cannot be set, others who cannot read it are told so.
func (g *grip) show(seen sight) {
	want := uint32(fileMode)
	if seen.mode.IsDir() {
		want = dirMode
	}
	if seen.perm&0o777 != want {
		unix.Fchmod(g.fd, seen.perm&^0o777|want)
	}
}

// guard keeps something that exists from being taken away by another ledger,
// as long as the grip is there. No grip and no error: it is no placeholder, so
// nobody will.
//
// It can only be one if it is empty. A lock that the host has on an empty file
// for reasons of its own looks like somebody who removes it.
func (l *Ledger) guard(path string) (*grip, error) {
	sp, err := openSpot(path)
	if err != nil {
		return nil, asChange(path, err)
	}
	defer sp.close()
	g, err := sp.guardSoon()
	if g == nil || err != nil {
		return nil, asChange(path, err)
	}
	l.mu.Lock()
	switch {
	case l.closed:
		err = ErrClosed
	case l.full():
		err = ErrLimit
	default:
		l.guards[g] = true
	}
	l.mu.Unlock()
	if err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// unguard gives a guard up, unless Close was here.
func (l *Ledger) unguard(g *grip) {
	l.mu.Lock()
	held := l.guards[g]
	delete(l.guards, g)
	l.mu.Unlock()
	if held {
		g.release()
	}
}

// settleTime is how long a server may take to let everybody read a placeholder that it
// has made, or to remove one that it has locked. settlePause is between two looks.
const (
	settleTime  = 500 * time.Millisecond
	settlePause = 10 * time.Millisecond
)

// guardSoon is guard, but waits for up to settleTime while another user's server may be
// making or removing a placeholder. An object of another user that stays closed or locked
// for longer is not guarded: its owner can remove it at any time. If it were refused, that
// user could keep all others from starting anything in a shared directory.
func (s spot) guardSoon() (*grip, error) {
	for deadline := time.Now().Add(settleTime); ; time.Sleep(settlePause) {
		seen, err := s.look()
		if err != nil {
			return nil, err
		}
		g, err := s.guard(seen)
		stranger := seen.uid != os.Geteuid() && seen.uid != 0
		switch {
		case !stranger || err != errOpaque && err != errLocked:
			return g, err
		case err == errOpaque && time.Since(time.Unix(0, seen.since)) > settleTime, time.Now().After(deadline):
			return nil, nil
		}
	}
}

func (s spot) guard(seen sight) (*grip, error) {
	switch {
	case !seen.there:
		return nil, unix.ENOENT
	case seen.mode&os.ModeSymlink != 0:
		return nil, errLink
	case !seen.mayBeEmpty():
		return nil, nil
	}
	g, err := s.open(seen, unix.O_RDONLY)
	if err == unix.EACCES {
		if seen.uid == os.Geteuid() {
			return nil, nil // our placeholders can be read
		}
		return nil, errOpaque
	}
	if err != nil {
		return nil, err
	}
	empty, err := g.empty(seen)
	if empty && err == nil {
		err = g.lock(s, filelock.Shared)
	}
	if !empty || err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// mayBeEmpty is what can be told without opening it: false means that it is no
// empty directory or file.
func (s sight) mayBeEmpty() bool {
	if s.mode.IsDir() {
		return s.links <= 2 // each subdirectory is one more, on most file systems
	}
	return s.mode == 0 && s.size == 0
}

// empty reports whether what is open has no content.
func (g *grip) empty(seen sight) (bool, error) {
	if seen.mode == 0 {
		return seen.size == 0, nil
	}
	return emptyDir(g.fd)
}
