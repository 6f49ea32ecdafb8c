package placeholder

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

var errBusy = errors.New("another server keeps the placeholder registry locked")

// A Ledger holds placeholders for the sandboxes of one server. It is safe for
// concurrent use; a slow disk under one path delays only those who hold it.
type Ledger struct {
	dir   string
	park  *os.File // see parked
	log   *slog.Logger
	limit int

	mu     sync.Mutex // guards the fields below
	slots  map[string]*slot
	idle   map[string]bool // registry files that are kept though nobody may use them
	closed bool
}

// A slot is this server's part in one placeholder.
type slot struct {
	path string
	refs int // Holds that have it or want it; guarded by Ledger.mu

	mu     sync.Mutex // guards the fields below; held over system calls
	users  int        // Holds that have it
	record record     // has the shared lock while there are users
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
	l := &Ledger{dir: dir, log: log, limit: maxHeld, slots: make(map[string]*slot), idle: make(map[string]bool)}
	if l.park, err = openPark(dir); err != nil {
		return nil, fmt.Errorf("placeholder ledger: %w", err)
	}
	return l, l.Sweep()
}

// A Hold is a sandbox's part in its placeholders.
type Hold struct {
	ledger  *Ledger
	slots   []*slot
	release sync.Once
}

// Hold makes the placeholders of one sandbox or takes part in those that are
// there; all or none. If a name exists in earnest the error is a *[RealError].
// Missing parents are not made.
func (l *Ledger) Hold(wants []Want) (*Hold, error) {
	h := &Hold{ledger: l, slots: make([]*slot, 0, len(wants))}
	for _, want := range wants {
		s, err := l.hold(want)
		if err != nil {
			h.Release()
			return nil, fmt.Errorf("placeholder %s: %w", want.Path, err)
		}
		h.slots = append(h.slots, s)
	}
	return h, nil
}

// Release ends the sandbox's part; the last one removes the placeholder. Call it
// when nothing runs in the sandbox any more. A second call does nothing.
func (h *Hold) Release() {
	h.release.Do(func() {
		for i := len(h.slots) - 1; i >= 0; i-- { // as they were made, backwards
			h.ledger.release(h.slots[i])
		}
	})
}

// hold adds a user to the slot of a path.
func (l *Ledger) hold(want Want) (*slot, error) {
	if err := checkPath(want.Path); err != nil {
		return nil, err
	}
	s, err := l.enter(want.Path)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	switch {
	case l.isClosed():
		err = ErrClosed
	case s.users > 0:
		err = l.settle(s.record, want, false)
	default:
		s.record, err = l.acquire(want)
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
		if s.users == 0 && l.retire(s.record, true) {
			l.keep(s.record.file)
		}
	}
	s.mu.Unlock()
	l.leave(s)
}

// keep notes a registry file that was left for the next use, and drops one
// if there are too many.
func (l *Ledger) keep(file string) {
	l.mu.Lock()
	drop := ""
	if l.closed {
		drop = file
	} else {
		l.idle[file] = true
	}
	if len(l.idle) > maxIdle {
		for drop = range l.idle { // any
			break
		}
		delete(l.idle, drop)
	}
	l.mu.Unlock()
	if drop != "" {
		l.drop(drop)
	}
}

// drop removes a registry file that nobody uses, and what it stands for.
func (l *Ledger) drop(file string) {
	r, err := openRecord(file, 0)
	switch {
	case err == nil:
		l.retire(r, false)
	case !errors.Is(err, fs.ErrNotExist):
		l.log.Warn("placeholder not swept", "err", err)
	}
}

// enter finds or makes the slot of a path and keeps it in the table until leave.
func (l *Ledger) enter(path string) (*slot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slots[path]
	switch {
	case l.closed:
		return nil, ErrClosed
	case s == nil && len(l.slots) >= l.limit:
		return nil, fmt.Errorf("%w: %d are held", ErrLimit, len(l.slots))
	case s == nil:
		s = &slot{path: path}
		l.slots[path] = s
	}
	s.refs++
	return s, nil
}

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

// Close ends the part of this server in all its placeholders, as if each Hold
// had been released; what another server uses stays. Call it when no sandbox
// runs any more.
func (l *Ledger) Close() error {
	l.mu.Lock()
	l.closed = true
	var open []*slot
	for _, s := range l.slots {
		open = append(open, s)
	}
	idle := l.idle
	l.idle = nil
	l.mu.Unlock()
	for _, s := range open {
		s.mu.Lock() // a Hold under way ends first; one that comes later sees closed
		if s.users > 0 {
			s.users = 0
			l.retire(s.record, false)
		}
		s.mu.Unlock()
	}
	for file := range idle {
		l.drop(file)
	}
	if err := l.park.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("placeholder ledger: %w", err)
	}
	return nil
}

// acquire returns the record of a path with a shared lock, its placeholder in place.
func (l *Ledger) acquire(want Want) (record, error) {
	file := filepath.Join(l.dir, registryName(want.Path))
	for w := (waiter{}); ; {
		r, err := openRecord(file, unix.O_CREAT)
		if err != nil {
			return record{}, err
		}
		done, err := l.join(r, want)
		if done {
			return r, nil
		}
		l.retire(r, false)
		if err != nil {
			return record{}, err
		}
		if !w.wait() {
			return record{}, errBusy
		}
	}
}

// join locks a record and settles its placeholder. Neither done nor an error:
// somebody else is at work on it, or it is of no use; try again with a new one.
func (l *Ledger) join(r record, want Want) (done bool, err error) {
	alone, err := r.lock(unix.LOCK_EX)
	if err == nil && !alone {
		var shared bool
		if shared, err = r.lock(unix.LOCK_SH); !shared {
			return false, err
		}
	}
	if err != nil {
		return false, err
	}
	got, err := r.read()
	switch {
	case errors.Is(err, errDamaged):
		return false, nil
	case err != nil || !got.linked:
		return false, err
	case alone && got.size == 0:
		err = r.add(lineWant(want))
	case got.want.Path == "", alone && got.want.Dir != want.Dir:
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := l.settle(r, want, alone); err != nil || !alone {
		return err == nil, err
	}
	if shared, err := r.lock(unix.LOCK_SH); !shared {
		return false, err
	}
	// Giving up the exclusive lock and taking the shared one need not be one step.
	_, _, linked, err := r.stat()
	return linked, err
}

// settle sees to it that the placeholder of a locked record is there and empty.
// Alone means that the lock is exclusive.
func (l *Ledger) settle(r record, want Want, alone bool) error {
	sp, err := openSpot(want.Path)
	if err != nil {
		return err
	}
	defer sp.close()
	found, err := inPlace(r, sp, want)
	if !alone && (err != nil || found != made) {
		// Others may be at work on it, so that entry and name did not match.
		unlock, lockErr := lockRegistry(l.dir)
		if lockErr != nil {
			return lockErr
		}
		defer unlock()
		found, err = inPlace(r, sp, want)
	}
	if err != nil || found == made {
		return err
	}
	if found == nothing && want.Dir {
		if done, err := l.parked(r).leave(r, sp, want); done || err != nil {
			return err
		}
	}
	return put(r, sp, want, found)
}

// inPlace returns made if the placeholder is there as wanted. Else it has to be
// made: from nothing, or again because making it was cut short. That is for one
// at a time.
func inPlace(r record, sp spot, want Want) (phase, error) {
	got, err := r.read()
	if err != nil {
		return nothing, err
	}
	if got.want.Dir != want.Dir {
		return nothing, &KindError{want}
	}
	seen, err := sp.look()
	if err != nil {
		return nothing, err
	}
	switch judge(got.entry, seen, got.written) {
	case absent:
		return nothing, nil
	case foreign:
		return nothing, &RealError{want.Path}
	}
	empty, err := sp.empty(seen)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing, nil
	case err != nil:
		return nothing, err
	case !empty:
		return nothing, &RealError{want.Path}
	}
	return got.phase, nil
}

// put makes the placeholder. What a maker left that was cut short is made
// again, so that its identity is known.
func put(r record, sp spot, want Want, found phase) error {
	if found == making {
		if err := sp.remove(want.Dir); err != nil && err != unix.ENOENT {
			return err
		}
	}
	if err := r.add(lineMake); err != nil {
		return err
	}
	id, err := sp.make(want.Dir)
	if err != nil {
		r.add(lineGone) // else a later name of somebody else would pass for ours
		if err == unix.EEXIST {
			return &RealError{want.Path}
		}
		return err
	}
	if err := r.add(lineMade(id)); err != nil {
		sp.remove(want.Dir)
		return err
	}
	return nil
}

// retire gives up a record. If nobody else uses it, the placeholder goes, and
// then the registry file, unless it is to be kept and can be: then it returns true.
func (l *Ledger) retire(r record, keep bool) (kept bool) {
	alone, err := r.lock(unix.LOCK_EX)
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
	if err := removeOurs(got, parked, keep); err != nil {
		// The entry stays: the next user of the name, or the next sweep, tries again.
		l.log.Warn("placeholder not removed", "path", got.want.Path, "err", err)
		r.close()
		return false
	}
	if keep && r.cut(lineWant(got.want)) == nil {
		r.close()
		return true
	}
	parked.remove(true)
	r.remove()
	return false
}

// removeOurs removes the placeholder of an entry that nobody uses, if it is ours and
// empty, or parks it. No error: nothing of ours is there any more.
func removeOurs(got reading, parked parkedSpot, keep bool) error {
	if got.phase == nothing {
		return nil
	}
	sp, err := openSpot(got.want.Path)
	switch {
	case err == unix.ENOENT || err == unix.ENOTDIR:
		return nil
	case err != nil:
		return err
	}
	defer sp.close()
	seen, err := sp.look()
	if err != nil || judge(got.entry, seen, got.written) != ours || !seen.mode.IsDir() && seen.size > 0 {
		return err
	}
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

// Sweep removes the placeholders that servers left which did not end in order.
func (l *Ledger) Sweep() error {
	files, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("sweep placeholders: %w", err)
	}
	for _, f := range files {
		if !isRegistryName(f.Name()) || !f.Type().IsRegular() {
			continue
		}
		l.drop(filepath.Join(l.dir, f.Name()))
	}
	l.sweepPark()
	return nil
}

// Snapshot returns a function for one compilation: it reports whether a name
// that was just seen exists only because a sandbox of this user holds it, on
// this server or another. A name that is gone by now counts as held too: it is
// not there in earnest.
//
// Each call looks at the registry, as a list read beforehand would miss a
// placeholder that was made since. To take that for a real directory, which
// nobody holds, would let it vanish under the sandbox. An entry is there before
// its placeholder and goes after it, so the look cannot miss it.
func (l *Ledger) Snapshot() func(path string) bool { return l.has }

func (l *Ledger) has(path string) bool {
	file := filepath.Join(l.dir, registryName(path))
	unlisted := 0
	for range maxLooks {
		switch lookUp(file, path) {
		case isHeld:
			return true
		case isReal:
			return false
		case isUnlisted:
			// What the caller saw may have gone since, and perhaps has been made
			// again: so look for the name, and then once more for an entry.
			var st unix.Stat_t
			if unlisted++; unlisted == 2 {
				return false
			} else if unix.Lstat(path, &st) == unix.ENOENT {
				return true
			}
		}
	}
	return true // that much going on is no real directory
}

// maxLooks bounds how often has looks at an entry that changes all the time.
const maxLooks = 8

// A finding is what the registry says of a name.
type finding int

const (
	isUnlisted finding = iota // there is no entry
	isHeld                    // or gone by now, or in doubt: Hold finds out and says what is wrong
	isReal                    // not made for the entry, or used in earnest
	isChanging                // look again
)

// lookUp compares a name with its registry file. It takes no lock: the entry
// is as it was before the name was looked at, or the answer is isChanging.
func lookUp(file, path string) finding {
	r, err := openRecord(file, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return isUnlisted
	}
	if err != nil {
		return isHeld
	}
	defer unix.Close(r.fd)
	got, err := r.read()
	switch {
	case err == nil && !got.linked:
		return isChanging
	case err != nil || got.want.Path == "":
		return isUnlisted
	}
	sp, err := openSpot(path)
	if err != nil {
		return isHeld
	}
	defer sp.close()
	seen, err := sp.look()
	if err != nil {
		return isHeld
	}
	switch judge(got.entry, seen, got.written) {
	case absent:
		return isHeld
	case foreign:
		after, err := r.read()
		if err != nil || after != got {
			return isChanging
		}
		if still, err := sp.look(); err != nil || still.id != seen.id {
			return isChanging
		}
		return isReal
	}
	empty, err := sp.empty(seen)
	if empty || err != nil {
		return isHeld
	}
	if got.phase == made {
		// The host uses it in earnest. The sandbox that is being planned builds
		// on that, so it must stay even if it is emptied later.
		r.add(lineReal(got.id))
	}
	return isReal
}
