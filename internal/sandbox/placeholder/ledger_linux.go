package placeholder

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
)

var (
	errBusy      = errors.New("another server keeps the placeholder registry locked")
	errOtherKind = errors.New("a placeholder of the other kind was left")
)

// A Ledger holds placeholders for the sandboxes of one server. It is safe for
// concurrent use; a slow disk under one path delays only the sandboxes that
// use that path.
type Ledger struct {
	dir      string
	stashDir *os.File // directory of unused placeholders, see stash
	log      *slog.Logger
	limit    int

	retries sync.WaitGroup // the goroutine that retries, see retryLater
	done    chan struct{}  // closed with the ledger

	mu       sync.Mutex // guards the fields below
	names    map[string]*sharedName
	guards   map[*lockedFile]bool
	idle     map[string]bool // registry files that are kept for the next use
	toRetry  map[string]bool // registry files of placeholders that another ledger guards
	retrying bool            // the goroutine runs
	closed   bool
	left     bool // Close has left placeholders that other ledgers guard
}

// A sharedName is one placeholder and its users on this server.
type sharedName struct {
	path string
	refs int // Leases that use it or are about to; guarded by Ledger.mu

	mu     sync.Mutex  // guards the fields below; held over system calls
	users  int         // Leases that use it
	record record      // has the shared lock while there are users
	file   *lockedFile // the placeholder, while there are users
}

// Open returns the ledger in dir, which all servers of this user share, and
// removes what dead servers left. The directory is made if it is missing. It
// is refused if other users can write to it, because they could make us
// remove any file.
func Open(dir string, log *slog.Logger) (*Ledger, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("placeholder ledger: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("placeholder ledger: %w", err)
	}
	l, err := newLedger(dir, log)
	if err != nil {
		return nil, err
	}
	if err := l.Sweep(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// newLedger returns the ledger in a directory that exists.
func newLedger(dir string, log *slog.Logger) (*Ledger, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("placeholder ledger: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("placeholder ledger: %s can be written by others", dir)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Ledger{
		dir: dir, log: log, limit: maxHeld, done: make(chan struct{}), names: make(map[string]*sharedName),
		guards: make(map[*lockedFile]bool), idle: make(map[string]bool), toRetry: make(map[string]bool),
	}
	if l.stashDir, err = openStash(dir); err != nil {
		return nil, fmt.Errorf("placeholder ledger: %w", err)
	}
	return l, nil
}

// A Lease lets one sandbox use its placeholders and guards until Release.
type Lease struct {
	ledger  *Ledger
	names   []*sharedName
	guards  []*lockedFile
	release sync.Once
}

// Acquire makes the placeholders of one sandbox, or shares existing ones, and
// guards the names that exist. It does all of that or nothing. If a name has
// changed since the sandbox was planned, the error is a *[ChangedError].
// Missing parents are not made.
func (l *Ledger) Acquire(wants []Want) (*Lease, error) {
	lease := &Lease{ledger: l, names: make([]*sharedName, 0, len(wants))}
	for _, want := range wants {
		if err := lease.add(want); err != nil {
			lease.Release()
			return nil, fmt.Errorf("placeholder %s: %w", want.Path, err)
		}
	}
	return lease, nil
}

func (lease *Lease) add(want Want) error {
	if err := checkPath(want.Path); err != nil {
		return err
	}
	if want.Exists {
		f, err := lease.ledger.guard(want.Path)
		if f != nil {
			lease.guards = append(lease.guards, f)
		}
		return err
	}
	s, err := lease.ledger.addUser(want)
	if err == nil {
		lease.names = append(lease.names, s)
	}
	return err
}

// Locks returns the descriptors whose locks protect what the lease has. Copies of them protect it when this program
// has ended.
func (lease *Lease) Locks() (fds []int) {
	for _, f := range lease.guards {
		fds = append(fds, f.fd)
	}
	for _, s := range lease.names {
		s.mu.Lock()
		if s.file != nil {
			fds = append(fds, s.file.fd)
		}
		s.mu.Unlock()
	}
	return fds
}

// Release ends the lease; the last lease of a placeholder removes it. Call it
// when nothing runs in the sandbox any more. A second call does nothing.
func (lease *Lease) Release() {
	lease.release.Do(func() {
		for _, f := range lease.guards {
			lease.ledger.unguard(f)
		}
		lease.ledger.retry()                         // before removeUser, which may note placeholders that it has just tried
		for i := len(lease.names) - 1; i >= 0; i-- { // in reverse order
			lease.ledger.removeUser(lease.names[i])
		}
	})
}

// addUser adds a user to the placeholder of a path, and makes it if there is
// none.
func (l *Ledger) addUser(want Want) (*sharedName, error) {
	s, err := l.addRef(want.Path)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	switch {
	case l.isClosed():
		err = ErrClosed
	case s.users > 0:
		s.file, err = l.ensure(s.record, want, false, s.file)
	default:
		s.record, s.file, err = l.acquireRecord(want)
	}
	if err == nil {
		s.users++
	}
	s.mu.Unlock()
	if err == nil {
		return s, nil
	}
	l.dropRef(s)
	return nil, err
}

// removeUser removes a user of a placeholder, and the placeholder after the
// last one.
func (l *Ledger) removeUser(s *sharedName) {
	s.mu.Lock()
	if s.users > 0 { // else Close has done it
		s.users--
		if s.users == 0 {
			l.retire(s.record, s.file, true)
			s.file = nil
		}
	}
	s.mu.Unlock()
	l.dropRef(s)
}

// addRef finds or adds the sharedName of a path and keeps it in the table until
// dropRef.
func (l *Ledger) addRef(path string) (*sharedName, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.names[path]
	switch {
	case l.closed:
		return nil, ErrClosed
	case s == nil && l.full():
		return nil, fmt.Errorf("%w: %d are held", ErrLimit, l.limit)
	case s == nil:
		s = &sharedName{path: path}
		l.names[path] = s
	}
	s.refs++
	return s, nil
}

// full reports whether the ledger has reached its limit. The caller has l.mu.
func (l *Ledger) full() bool { return len(l.names)+len(l.guards) >= l.limit }

func (l *Ledger) dropRef(s *sharedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.refs--
	if s.refs == 0 {
		delete(l.names, s.path)
	}
}

func (l *Ledger) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Close gives up all placeholders and guards of this server, as if each Lease
// had been released. Placeholders that another server uses stay. If that
// server shares the registry, it removes them, else StartSweeper or the next
// Open does. Call Close when no sandbox runs any more.
func (l *Ledger) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	var open []*sharedName
	for _, s := range l.names {
		open = append(open, s)
	}
	guards := l.guards
	l.guards = nil
	files := l.idle
	maps.Copy(files, l.toRetry)
	l.idle, l.toRetry = nil, nil
	l.mu.Unlock()
	l.retries.Wait()
	for f := range guards {
		f.release()
	}
	for _, s := range open {
		s.mu.Lock() // an addUser under way ends first; a later one sees closed
		if s.users > 0 {
			s.users = 0
			l.retire(s.record, s.file, false)
			s.file = nil
		}
		s.mu.Unlock()
	}
	for file := range files {
		l.drop(file)
	}
	if err := l.stashDir.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("placeholder ledger: %w", err)
	}
	return nil
}

// acquireRecord returns the record of a path with a shared lock, and its
// placeholder, which exists and is locked too.
func (l *Ledger) acquireRecord(want Want) (record, *lockedFile, error) {
	file := filepath.Join(l.dir, registryName(want.Path))
	for w := (backoff{}); ; {
		r, err := openRecord(file, unix.O_CREAT)
		if err != nil {
			return record{}, nil, err
		}
		f, done, err := l.join(r, want)
		if done {
			return r, f, nil
		}
		guarded := l.retire(r, f, false)
		switch {
		case err == errOtherKind && guarded:
			return record{}, nil, &KindError{want}
		case err != nil && err != errOtherKind:
			return record{}, nil, err
		case !w.wait():
			return record{}, nil, errBusy
		}
	}
}

// join locks a record and makes sure that its placeholder exists; then done is
// true. If done is false and the error is nil or errOtherKind, another process is
// changing the entry, or the entry is of no use: the caller retires it and tries
// again. The lockedFile belongs to the caller in any case.
func (l *Ledger) join(r record, want Want) (f *lockedFile, done bool, err error) {
	alone, err := r.lock(filelock.Exclusive)
	if err == nil && !alone {
		var shared bool
		if shared, err = r.lock(filelock.Shared); !shared {
			return nil, false, err
		}
	}
	if err != nil {
		return nil, false, err
	}
	got, err := r.read()
	switch {
	case errors.Is(err, errDamaged):
		return nil, false, nil
	case err != nil || !got.linked:
		return nil, false, err
	case alone && got.size == 0:
		err = r.add(lineWant(want))
	case got.want.Path == "":
		return nil, false, nil
	case alone && got.want.Dir != want.Dir:
		return nil, false, errOtherKind
	}
	if err != nil {
		return nil, false, err
	}
	f, err = l.ensure(r, want, alone, nil)
	if err != nil || !alone {
		return f, err == nil, err
	}
	if shared, err := r.lock(filelock.Shared); !shared {
		return f, false, err
	}
	// Converting the exclusive lock into a shared one need not be atomic.
	_, _, linked, err := r.stat()
	return f, linked, err
}

// ensure makes sure that the placeholder of a locked record exists and is empty.
// It returns a lockedFile of it: have, or a new one, and then it releases have.
// After an error it returns have, unchanged. alone means that the record's lock is
// exclusive.
func (l *Ledger) ensure(r record, want Want, alone bool, have *lockedFile) (*lockedFile, error) {
	de, err := openDirEntry(want.Path)
	if err != nil {
		return have, asChange(want.Path, err)
	}
	defer de.close()
	found, f, err := inPlace(r, de, want, have)
	if !alone && (err != nil || found != made) {
		// Other processes may be changing it, so that entry and name did not
		// match.
		unlock, lockErr := lockRegistry(l.dir)
		if lockErr != nil {
			return have, lockErr
		}
		defer unlock()
		found, f, err = inPlace(r, de, want, have)
	}
	if err == nil && found == nothing && want.Dir {
		f, err = l.stashOf(r).take(r, de)
	}
	if err == nil && f == nil {
		f, err = create(r, de, want, found)
	}
	if err != nil {
		return have, asChange(want.Path, err)
	}
	if f != have {
		have.release()
	}
	return f, nil
}

// If the placeholder exists as wanted, inPlace returns made and a lockedFile. Else it
// returns the phase from which create continues: nothing, or making if a maker was
// interrupted. Only one process at a time may create it.
func inPlace(r record, de dirEntry, want Want, have *lockedFile) (phase, *lockedFile, error) {
	got, err := r.read()
	if err != nil {
		return nothing, nil, err
	}
	if got.want.Dir != want.Dir {
		return nothing, nil, &KindError{want}
	}
	seen, err := de.stat()
	if err != nil {
		return nothing, nil, err
	}
	switch ownershipOf(got.registryEntry, seen, got.written) {
	case absent:
		return nothing, nil, nil
	case foreign:
		return nothing, nil, errExists
	}
	empty, err := de.empty(seen)
	switch {
	case err == unix.ENOENT:
		return nothing, nil, nil
	case err != nil:
		return nothing, nil, err
	case !empty:
		return nothing, nil, errExists
	case got.phase != made:
		return got.phase, nil, nil
	case have != nil && have.id == seen.id:
		return made, have, nil
	}
	f, err := de.openLocked(seen)
	return made, f, err
}

// create makes the placeholder, or completes one whose maker was interrupted. If
// it fails after the name was made, the entry says so, and retire removes the
// name.
func create(r record, de dirEntry, want Want, found phase) (*lockedFile, error) {
	var seen fileStat
	var err error
	if found == making {
		seen, err = de.stat()
		if err == nil && !seen.there {
			err = errReplaced
		}
	} else if err = r.add(lineMake); err == nil {
		seen, err = de.make(want.Dir)
		if err != nil {
			r.add(lineGone) // else a later name of another program would be taken for ours
		}
	}
	if err == unix.EEXIST {
		err = errExists
	}
	if err != nil {
		return nil, err
	}
	f, err := de.openLocked(seen)
	if err != nil {
		return nil, err
	}
	f.makeReadable(seen)
	if err := r.add(lineMade(f.id)); err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// retire gives up a record and its lockedFile. If no other process uses the record,
// retire removes the placeholder and then the registry file. With keep, the registry
// file stays for the next use of the name, and a directory may be stashed. retire
// returns true if the placeholder is ours but another ledger guards it.
func (l *Ledger) retire(r record, f *lockedFile, keep bool) (guarded bool) {
	defer f.release()
	f.unlock() // before the record's lock: a process that then locks the record exclusively finds no lock of ours here
	alone, err := r.lock(filelock.Exclusive)
	if !alone {
		r.close()
		if err != nil {
			l.log.Warn("placeholder not released", "err", err)
		}
		return false
	}
	got, err := r.read()
	switch {
	case errors.Is(err, errDamaged):
		l.log.Warn("damaged placeholder registry entry dropped", "file", filepath.Base(r.file))
		r.remove()
		return false
	case err != nil:
		l.log.Warn("placeholder not released", "err", err)
		r.close()
		return false
	case !got.linked:
		r.close()
		return false
	}
	stashed := l.stashOf(r)
	switch err := removeOurs(got, stashed, f, keep); err {
	case nil:
	case errLocked, errReplaced:
		r.close()
		l.retryLater(r.file)
		return true
	default:
		// The entry stays: the next user of the name, or the next sweep, tries again.
		l.log.Warn("placeholder not removed", "path", got.want.Path, "err", err)
		r.close()
		return false
	}
	if keep && r.cut(lineWant(got.want)) == nil {
		r.close()
		l.keepIdle(r.file)
		return false
	}
	stashed.remove(true)
	r.remove()
	return false
}

// removeOurs removes or stashes the placeholder of an unused entry, if it is ours
// and empty. No error: no placeholder of ours is left. errLocked or errReplaced: try
// again later.
func removeOurs(got reading, stashed stash, f *lockedFile, keep bool) error {
	if got.phase == nothing {
		return nil
	}
	de, seen, err := locate(got, f)
	if err != nil || !seen.there {
		return err
	}
	defer de.close()
	if !seen.mode.IsDir() && seen.size > 0 {
		return nil
	}
	if f == nil || f.id != seen.id {
		if f, err = de.openOurs(seen); err == unix.ENOENT {
			return nil
		} else if err != nil {
			return err
		}
		defer f.release()
	}
	if err := f.lock(de, filelock.Exclusive); err != nil {
		return err
	}
	defer f.unlock() // before the record's lock: the next user may get the same file
	if keep && got.want.Dir && stashed.put(de, f) {
		return nil
	}
	switch err := de.remove(got.want.Dir); err {
	case unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST: // missing, or used by the host
		return nil
	default:
		return err
	}
}

// locate finds the placeholder of an entry: under its name, or at the path to which it was
// moved while f was open. If it is not ours any more, the returned fileStat is empty.
func locate(got reading, f *lockedFile) (dirEntry, fileStat, error) {
	at := func(path string) (dirEntry, fileStat, error) {
		de, err := openDirEntry(path)
		if err != nil {
			return dirEntry{}, fileStat{}, err
		}
		seen, err := de.stat()
		if err != nil || ownershipOf(got.registryEntry, seen, got.written) != ours {
			de.close()
			return dirEntry{}, fileStat{}, err
		}
		return de, seen, nil
	}
	de, seen, err := at(got.want.Path)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		err = nil
	}
	if seen.there || f == nil {
		return de, seen, err
	}
	moved, ok := f.path()
	if !ok || moved == got.want.Path {
		return de, seen, err
	}
	return at(moved)
}
