package placeholder

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Snapshot returns a function for one compilation: it reports whether a name
// that was just seen exists only because a sandbox of this user holds it, on
// this server or another. A name that is gone by now counts as held too: it is
// not there in earnest.
//
// Each call looks at the registry, as a list read beforehand would miss a
// placeholder that was made since. To take that for a real directory, which
// nobody holds, would let it vanish under the sandbox. An entry is there before
// its placeholder and goes after it, so the look cannot miss it.
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

// A lookupResult is what the registry says of a name.
type lookupResult int

const (
	isUnlisted lookupResult = iota // there is no entry
	isHeld                         // or gone by now, or in doubt: Hold finds out and says what is wrong
	isReal                         // not made for the entry, or used in earnest
	isChanging                     // look again
)

// lookUp compares a name with its registry file. It takes no lock: the entry
// is as it was before the name was looked at, or the answer is isChanging.
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
	switch ownershipOf(got.entry, seen, got.written) {
	case absent:
		return isHeld
	case foreign:
		if got.phase == making {
			// A write changes the time of the file before its content, so the line
			// that says "made" may be half there. If the maker is dead instead, Hold
			// sees that and clears the entry away.
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
		// The host uses it in earnest. The sandbox that is being planned builds
		// on that, so it must stay even if it is emptied later.
		r.add(lineReal(got.id))
	}
	return isReal
}
