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
	dir   string
	park  *os.File // see parked
	log   *slog.Logger
	limit int

	retries sync.WaitGroup // the goroutine that retries, see later
	done    chan struct{}  // closed with the ledger

	mu       sync.Mutex // guards the fields below
	slots    map[string]*slot
	guards   map[*grip]bool
	idle     map[string]bool // registry files that are kept though nobody may use them
	busy     map[string]bool // registry files of placeholders that another ledger guards
	retrying bool
	closed   bool
	left     bool // Close has left placeholders that others guard
}

// A slot is this server's part in one placeholder.
type slot struct {
	path string
	refs int // Holds that have it or want it; guarded by Ledger.mu

	mu     sync.Mutex // guards the fields below; held over system calls
	users  int        // Holds that have it
	record record     // has the shared lock while there are users
	grip   *grip      // the placeholder, while there are users
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
		dir: dir, log: log, limit: maxHeld, done: make(chan struct{}), slots: make(map[string]*slot),
		guards: make(map[*grip]bool), idle: make(map[string]bool), busy: make(map[string]bool),
	}
	if l.park, err = openPark(dir); err != nil {
		return nil, fmt.Errorf("placeholder ledger: %w", err)
	}
	return l, nil
}

// A Hold is a sandbox's part in its placeholders, and its guards.
type Hold struct {
	ledger  *Ledger
	slots   []*slot
	guards  []*grip
	release sync.Once
}

// Hold makes the placeholders of one sandbox or takes part in those that are
// there, and guards what exists; all or none. If a name is not what it was when
// the sandbox was planned, the error is a *[ChangedError]. Missing parents are
// not made.
func (l *Ledger) Hold(wants []Want) (*Hold, error) {
	h := &Hold{ledger: l, slots: make([]*slot, 0, len(wants))}
	for _, want := range wants {
		if err := h.add(want); err != nil {
			h.Release()
			return nil, fmt.Errorf("placeholder %s: %w", want.Path, err)
		}
	}
	return h, nil
}

func (h *Hold) add(want Want) error {
	if err := checkPath(want.Path); err != nil {
		return err
	}
	if want.Exists {
		g, err := h.ledger.guard(want.Path)
		if g != nil {
			h.guards = append(h.guards, g)
		}
		return err
	}
	s, err := h.ledger.hold(want)
	if err == nil {
		h.slots = append(h.slots, s)
	}
	return err
}

// Release ends the sandbox's part; the last one removes the placeholder. Call it
// when nothing runs in the sandbox any more. A second call does nothing.
func (h *Hold) Release() {
	h.release.Do(func() {
		for _, g := range h.guards {
			h.ledger.unguard(g)
		}
		h.ledger.retry()                         // before new ones are added: those were just tried
		for i := len(h.slots) - 1; i >= 0; i-- { // as they were made, backwards
			h.ledger.release(h.slots[i])
		}
	})
}

// hold adds a user to the slot of a path.
func (l *Ledger) hold(want Want) (*slot, error) {
	s, err := l.enter(want.Path)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	switch {
	case l.isClosed():
		err = ErrClosed
	case s.users > 0:
		s.grip, err = l.settle(s.record, want, false, s.grip)
	default:
		s.record, s.grip, err = l.acquire(want)
	}
	if err == nil {
		s.users++
	}
	s.mu.Unlock()
	if err == nil {
		return s, nil
	}
	l.leave(s)
	return nil, err
}

// release takes a user away from a slot.
func (l *Ledger) release(s *slot) {
	s.mu.Lock()
	if s.users > 0 { // else Close was here
		s.users--
		if s.users == 0 {
			l.retire(s.record, s.grip, true)
			s.grip = nil
		}
	}
	s.mu.Unlock()
	l.leave(s)
}

// enter finds or makes the slot of a path and keeps it in the table until leave.
func (l *Ledger) enter(path string) (*slot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slots[path]
	switch {
	case l.closed:
		return nil, ErrClosed
	case s == nil && l.full():
		return nil, fmt.Errorf("%w: %d are held", ErrLimit, l.limit)
	case s == nil:
		s = &slot{path: path}
		l.slots[path] = s
	}
	s.refs++
	return s, nil
}

// full reports whether the ledger holds as much as it may. The caller has l.mu.
func (l *Ledger) full() bool { return len(l.slots)+len(l.guards) >= l.limit }

func (l *Ledger) leave(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.refs--
	if s.refs == 0 {
		delete(l.slots, s.path)
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
	var open []*slot
	for _, s := range l.slots {
		open = append(open, s)
	}
	guards := l.guards
	l.guards = nil
	left := l.idle
	maps.Copy(left, l.busy)
	l.idle, l.busy = nil, nil
	l.mu.Unlock()
	l.retries.Wait()
	for g := range guards {
		g.release()
	}
	for _, s := range open {
		s.mu.Lock() // a Hold under way ends first; one that comes later sees closed
		if s.users > 0 {
			s.users = 0
			l.retire(s.record, s.grip, false)
			s.grip = nil
		}
		s.mu.Unlock()
	}
	for file := range left {
		l.drop(file)
	}
	if err := l.park.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("placeholder ledger: %w", err)
	}
	return nil
}

// acquire returns the record of a path with a shared lock, its placeholder in
// place and locked too.
func (l *Ledger) acquire(want Want) (record, *grip, error) {
	file := filepath.Join(l.dir, registryName(want.Path))
	for w := (waiter{}); ; {
		r, err := openRecord(file, unix.O_CREAT)
		if err != nil {
			return record{}, nil, err
		}
		g, done, err := l.join(r, want)
		if done {
			return r, g, nil
		}
		guarded := l.retire(r, g, false)
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
func (l *Ledger) join(r record, want Want) (g *grip, done bool, err error) {
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
	g, err = l.settle(r, want, alone, nil)
	if err != nil || !alone {
		return g, err == nil, err
	}
	if shared, err := r.lock(filelock.Shared); !shared {
		return g, false, err
	}
	// Giving up the exclusive lock and taking the shared one need not be one step.
	_, _, linked, err := r.stat()
	return g, linked, err
}

// settle sees to it that the placeholder of a locked record is there and empty,
// and returns a grip on it. If that is not the one that the caller has, the
// caller's is released; after an error it is as it was.
// Alone means that the lock is exclusive.
func (l *Ledger) settle(r record, want Want, alone bool, have *grip) (*grip, error) {
	sp, err := openSpot(want.Path)
	if err != nil {
		return have, asChange(want.Path, err)
	}
	defer sp.close()
	found, g, err := inPlace(r, sp, want, have)
	if !alone && (err != nil || found != made) {
		// Others may be at work on it, so that entry and name did not match.
		unlock, lockErr := lockRegistry(l.dir)
		if lockErr != nil {
			return have, lockErr
		}
		defer unlock()
		found, g, err = inPlace(r, sp, want, have)
	}
	if err == nil && found == nothing && want.Dir {
		g, err = l.parked(r).leave(r, sp)
	}
	if err == nil && g == nil {
		g, err = put(r, sp, want, found)
	}
	if err != nil {
		return have, asChange(want.Path, err)
	}
	if g != have {
		have.release()
	}
	return g, nil
}

// inPlace returns made and a grip if the placeholder is there as wanted. Else it
// has to be made: from nothing, or to the end because making it was cut short.
// That is for one at a time.
func inPlace(r record, sp spot, want Want, have *grip) (phase, *grip, error) {
	got, err := r.read()
	if err != nil {
		return nothing, nil, err
	}
	if got.want.Dir != want.Dir {
		return nothing, nil, &KindError{want}
	}
	seen, err := sp.look()
	if err != nil {
		return nothing, nil, err
	}
	switch judge(got.entry, seen, got.written) {
	case absent:
		return nothing, nil, nil
	case foreign:
		return nothing, nil, errExists
	}
	empty, err := sp.empty(seen)
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
	g, err := sp.grasp(seen)
	return made, g, err
}

// put makes the placeholder, or goes on with what a maker left that was cut
// short. If it fails after the name was made, the entry says so, and who retires
// it removes the name.
func put(r record, sp spot, want Want, found phase) (*grip, error) {
	var seen sight
	var err error
	if found == making {
		seen, err = sp.look()
		if err == nil && !seen.there {
			err = errMoved
		}
	} else if err = r.add(lineMake); err == nil {
		seen, err = sp.make(want.Dir)
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
	g, err := sp.grasp(seen)
	if err != nil {
		return nil, err
	}
	g.show(seen)
	if err := r.add(lineMade(g.id)); err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// retire gives up a record and its grip. If nobody else uses it, the placeholder
// goes, and then the registry file, unless it is to be kept and can be. True:
// the placeholder is ours to remove, but another ledger guards it.
func (l *Ledger) retire(r record, g *grip, keep bool) (guarded bool) {
	defer g.release()
	g.unlock() // before the record's: whoever is alone with that finds no lock of ours here
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
	parked := l.parked(r)
	switch err := removeOurs(got, parked, g, keep); err {
	case nil:
	case errLocked, errMoved:
		r.close()
		l.later(r.file)
		return true
	default:
		// The entry stays: the next user of the name, or the next sweep, tries again.
		l.log.Warn("placeholder not removed", "path", got.want.Path, "err", err)
		r.close()
		return false
	}
	if keep && r.cut(lineWant(got.want)) == nil {
		r.close()
		l.keep(r.file)
		return false
	}
	parked.remove(true)
	r.remove()
	return false
}

// removeOurs removes the placeholder of an entry that nobody uses, if it is ours and
// empty, or parks it. No error: nothing of ours is there any more. errLocked or
// errMoved: try again later.
func removeOurs(got reading, parked parkedSpot, g *grip, keep bool) error {
	if got.phase == nothing {
		return nil
	}
	sp, seen, err := locate(got, g)
	if err != nil || !seen.there {
		return err
	}
	defer sp.close()
	if !seen.mode.IsDir() && seen.size > 0 {
		return nil
	}
	if g == nil || g.id != seen.id {
		if g, err = sp.openOurs(seen); err == unix.ENOENT {
			return nil
		} else if err != nil {
			return err
		}
		defer g.release()
	}
	if err := g.lock(sp, filelock.Exclusive); err != nil {
		return err
	}
	defer g.unlock() // before the record's: the next user may be given this very object
	if keep && got.want.Dir && parked.enter(sp, seen) {
		return nil
	}
	switch err := sp.remove(got.want.Dir); err {
	case unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST: // gone, or in use in earnest
		return nil
	default:
		return err
	}
}

// locate finds the placeholder of an entry: under its name, or where somebody has
// moved it to while we had a grip on it. Nothing is seen if it is not ours any more.
func locate(got reading, g *grip) (spot, sight, error) {
	at := func(path string) (spot, sight, error) {
		sp, err := openSpot(path)
		if err != nil {
			return spot{}, sight{}, err
		}
		seen, err := sp.look()
		if err != nil || judge(got.entry, seen, got.written) != ours {
			sp.close()
			return spot{}, sight{}, err
		}
		return sp, seen, nil
	}
	sp, seen, err := at(got.want.Path)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		err = nil
	}
	if seen.there || g == nil {
		return sp, seen, err
	}
	moved, ok := g.path()
	if !ok || moved == got.want.Path {
		return sp, seen, err
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
	l.sweepPark()
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
