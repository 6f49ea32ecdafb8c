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
// concurrent use; a slow disk under one path delays only those who hold it.
type Ledger struct {
	dir      string
	stashDir *os.File // see parked
	log      *slog.Logger
	limit    int

	retries sync.WaitGroup // the goroutine that retries, see later
	done    chan struct{}  // closed with the ledger

	mu       sync.Mutex // guards the fields below
	names    map[string]*sharedName
	guards   map[*lockedFile]bool
	idle     map[string]bool // registry files that are kept though nobody may use them
	busy     map[string]bool // registry files of placeholders that another ledger guards
	retrying bool
	closed   bool
	left     bool // Close has left placeholders that others guard
}

// A sharedName is this server's part in one placeholder.
type sharedName struct {
	path string
	refs int // Leases that have it or want it; guarded by Ledger.mu

	mu     sync.Mutex  // guards the fields below; held over system calls
	users  int         // Leases that have it
	record record      // has the shared lock while there are users
	file   *lockedFile // the placeholder, while there are users
}

// Open returns the ledger in dir, which all servers of this user share, and
// removes what dead servers left. The directory is made if it is missing; one
// that others could write to is refused, as they could name what we remove.
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
	return l, l.Sweep()
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
		guards: make(map[*lockedFile]bool), idle: make(map[string]bool), busy: make(map[string]bool),
	}
	if l.stashDir, err = openStash(dir); err != nil {
		return nil, fmt.Errorf("placeholder ledger: %w", err)
	}
	return l, nil
}

// A Lease is a sandbox's part in its placeholders, and its guards.
type Lease struct {
	ledger  *Ledger
	names   []*sharedName
	guards  []*lockedFile
	release sync.Once
}

// Hold makes the placeholders of one sandbox or takes part in those that are
// there, and guards what exists; all or none. If a name is not what it was when
// the sandbox was planned, the error is a *[ChangedError]. Missing parents are
// not made.
func (l *Ledger) Acquire(wants []Want) (*Lease, error) {
	h := &Lease{ledger: l, names: make([]*sharedName, 0, len(wants))}
	for _, want := range wants {
		if err := h.add(want); err != nil {
			h.Release()
			return nil, fmt.Errorf("placeholder %s: %w", want.Path, err)
		}
	}
	return h, nil
}

func (h *Lease) add(want Want) error {
	if err := checkPath(want.Path); err != nil {
		return err
	}
	if want.Exists {
		f, err := h.ledger.guard(want.Path)
		if f != nil {
			h.guards = append(h.guards, f)
		}
		return err
	}
	s, err := h.ledger.addUser(want)
	if err == nil {
		h.names = append(h.names, s)
	}
	return err
}

// Release ends the sandbox's part; the last one removes the placeholder. Call it
// when nothing runs in the sandbox any more. A second call does nothing.
func (h *Lease) Release() {
	h.release.Do(func() {
		for _, f := range h.guards {
			h.ledger.unguard(f)
		}
		h.ledger.retry()                         // before new ones are added: those were just tried
		for i := len(h.names) - 1; i >= 0; i-- { // as they were made, backwards
			h.ledger.removeUser(h.names[i])
		}
	})
}

// hold adds a user to the sharedName of a path.
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

// release takes a user away from a sharedName.
func (l *Ledger) removeUser(s *sharedName) {
	s.mu.Lock()
	if s.users > 0 { // else Close was here
		s.users--
		if s.users == 0 {
			l.retire(s.record, s.file, true)
			s.file = nil
		}
	}
	s.mu.Unlock()
	l.dropRef(s)
}

// enter finds or makes the sharedName of a path and keeps it in the table until leave.
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

// full reports whether the ledger holds as much as it may. The caller has l.mu.
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

// Close ends the part of this server in all its placeholders and guards, as if
// each Hold had been released. What another server uses stays: one that shares
// the registry removes it, else StartSweeper or the next Open sees to it. Call
// Close when no sandbox runs any more.
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
	left := l.idle
	maps.Copy(left, l.busy)
	l.idle, l.busy = nil, nil
	l.mu.Unlock()
	l.retries.Wait()
	for f := range guards {
		f.release()
	}
	for _, s := range open {
		s.mu.Lock() // a Hold under way ends first; one that comes later sees closed
		if s.users > 0 {
			s.users = 0
			l.retire(s.record, s.file, false)
			s.file = nil
		}
		s.mu.Unlock()
	}
	for file := range left {
		l.drop(file)
	}
	if err := l.stashDir.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("placeholder ledger: %w", err)
	}
	return nil
}

// acquireRecord returns the record of a path with a shared lock, its placeholder in
// place and locked too.
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

// join locks a record and settles its placeholder. Neither done nor an error, or
// errOtherKind: somebody else is at work on it, or it is of no use; retire it and
// try again.
// What it returns is the caller's in any case.
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
	// Giving up the exclusive lock and taking the shared one need not be one step.
	_, _, linked, err := r.stat()
	return f, linked, err
}

// settle sees to it that the placeholder of a locked record is there and empty,
// and returns a lockedFile on it. If that is not the one that the caller has, the
// caller's is released; after an error it is as it was.
// Alone means that the lock is exclusive.
func (l *Ledger) ensure(r record, want Want, alone bool, have *lockedFile) (*lockedFile, error) {
	de, err := openDirEntry(want.Path)
	if err != nil {
		return have, asChange(want.Path, err)
	}
	defer de.close()
	found, f, err := inPlace(r, de, want, have)
	if !alone && (err != nil || found != made) {
		// Others may be at work on it, so that entry and name did not match.
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

// inPlace returns made and a lockedFile if the placeholder is there as wanted. Else it
// has to be made: from nothing, or to the end because making it was cut short.
// That is for one at a time.
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
	switch ownershipOf(got.entry, seen, got.written) {
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

// put makes the placeholder, or goes on with what a maker left that was cut
// short. If it fails after the name was made, the entry says so, and who retires
// it removes the name.
func create(r record, de dirEntry, want Want, found phase) (*lockedFile, error) {
	var seen fileStat
	var err error
	if found == making {
		seen, err = de.stat()
		if err == nil && !seen.there {
			err = errMoved
		}
	} else if err = r.add(lineMake); err == nil {
		seen, err = de.make(want.Dir)
		if err != nil {
			r.add(lineGone) // else a later name of somebody else would pass for ours
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

// retire gives up a record and its lockedFile. If nobody else uses it, the placeholder
// goes, and then the registry file, unless it is to be kept and can be. True:
// the placeholder is ours to remove, but another ledger guards it.
func (l *Ledger) retire(r record, f *lockedFile, keep bool) (guarded bool) {
	defer f.release()
	f.unlock() // before the record's: whoever is alone with that finds no lock of ours here
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
	case errLocked, errMoved:
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

// removeOurs removes the placeholder of an entry that nobody uses, if it is ours and
// empty, or parks it. No error: nothing of ours is there any more. errLocked or
// errMoved: try again later.
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
	defer f.unlock() // before the record's: the next user may be given this very object
	if keep && got.want.Dir && stashed.put(de, seen) {
		return nil
	}
	switch err := de.remove(got.want.Dir); err {
	case unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST: // gone, or in use in earnest
		return nil
	default:
		return err
	}
}

// locate finds the placeholder of an entry: under its name, or where somebody has
// moved it to while we had a lockedFile on it. Nothing is seen if it is not ours any more.
func locate(got reading, f *lockedFile) (dirEntry, fileStat, error) {
	at := func(path string) (dirEntry, fileStat, error) {
		de, err := openDirEntry(path)
		if err != nil {
			return dirEntry{}, fileStat{}, err
		}
		seen, err := de.stat()
		if err != nil || ownershipOf(got.entry, seen, got.written) != ours {
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

// Sweep removes the placeholders that servers left which did not end in order.
func (l *Ledger) Sweep() error {
	files, err := l.registryFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		l.drop(file)
	}
	l.sweepStash()
	return nil
}

// registryFiles are the paths of all entries.
func (l *Ledger) registryFiles() ([]string, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("sweep placeholders: %w", err)
	}
	var files []string
	for _, e := range entries {
		if isRegistryName(e.Name()) && e.Type().IsRegular() {
			files = append(files, filepath.Join(l.dir, e.Name()))
		}
	}
	return files, nil
}
