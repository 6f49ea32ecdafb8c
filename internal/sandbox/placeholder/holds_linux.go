package placeholder

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Holds reports whether a name that was just seen exists only because a sandbox
// of this user holds it, on this server or another. It also returns true for a
// name that is gone by now, because nothing else uses it.
//
// Each call reads the registry. A list read beforehand would miss a placeholder
// that was made since; if that were taken for a real directory, it could be
// removed while the sandbox uses it. An entry is written before its placeholder
// is made and removed after it, so the call cannot miss it.
func (l *Ledger) Holds(path string) bool {
	file := filepath.Join(l.dir, registryName(path))
	unlisted := 0
	for range maxLooks {
		switch registryState(file, path) {
		case isHeld:
			return true
		case isReal:
			return false
		case isUnlisted:
			// The name that the caller saw may have been removed since, and made
			// again. So look for the name, and then once more for an entry.
			var st unix.Stat_t
			if unlisted++; unlisted == 2 {
				return false
			} else if unix.Lstat(path, &st) == unix.ENOENT {
				return true
			}
		}
	}
	return true // a real directory does not change that often
}

// maxLooks bounds how often Holds reads an entry that changes all the time.
const maxLooks = 8

// A lookupResult is what the registry says about a name.
type lookupResult int

const (
	isUnlisted lookupResult = iota // there is no entry
	isHeld                         // or gone by now, or in doubt: Acquire finds out and reports the problem
	isReal                         // not made for the entry, or used by the host
	isChanging                     // look again
)

// registryState compares a name with its registry file. It takes no lock: if
// the entry may have changed while the name was looked at, the result is
// isChanging.
func registryState(file, path string) lookupResult {
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
	de, err := openDirEntry(path)
	if err != nil {
		return isHeld
	}
	defer de.close()
	seen, err := de.stat()
	if err != nil {
		return isHeld
	}
	switch ownershipOf(got.registryEntry, seen, got.written) {
	case absent:
		return isHeld
	case foreign:
		if got.phase == making {
			// A write changes the time of the file before its content, so the "made"
			// line may be incomplete. If the maker is dead instead, Acquire notices
			// that and removes the entry.
			return isChanging
		}
		after, err := r.read()
		if err != nil || after != got {
			return isChanging
		}
		if still, err := de.stat(); err != nil || still.id != seen.id {
			return isChanging
		}
		return isReal
	}
	empty, err := de.empty(seen)
	if empty || err != nil {
		return isHeld
	}
	if got.phase == made {
		// The host uses it. The sandbox that is being planned depends on that,
		// so it must stay even if it is emptied later.
		r.add(lineReal(got.id))
	}
	return isReal
}
