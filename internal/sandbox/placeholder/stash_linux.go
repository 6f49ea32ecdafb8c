package placeholder

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/files/at"
)

// A placeholder directory that is not needed any more is likely to be needed
// again soon, by the next command in the same workspace. Making and removing a
// directory can cost half a millisecond on some file systems, moving it costs a
// tenth of that. So it is parked beside the registry, if that is on the same file
// system.
//
// It is parked for its own path only: whoever still has it open, because rules
// let him, has it where he could have it before. Nothing is moved that has
// content. What is parked is under the lock of the registry file of the same
// name, and goes with that.
type stash struct{ dirEntry }

// stashSuffix makes the name of the directory beside the registry.
const stashSuffix = "-parked"

func openStash(registry string) (*os.File, error) {
	dir := registry + stashSuffix
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return nil, err
	}
	fd, err := at.Open(unix.AT_FDCWD, dir, at.Directory)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// parked is where the placeholder of a record is parked.
func (l *Ledger) stashOf(r record) stash {
	return stash{dirEntry{int(l.stashDir.Fd()), filepath.Base(r.file)}}
}

// enter parks the placeholder that was seen at its own dirEntry, and on which the
// caller has the exclusive lock. False: it stays.
func (p stash) put(from dirEntry, seen fileStat) bool {
	if empty, err := from.empty(seen); !empty || err != nil {
		return false
	}
	if move(from, p.dirEntry) != nil {
		return false
	}
	now, err := p.stat()
	if err == nil && now.id.same(seen.id) {
		if empty, err := p.empty(now); empty && err == nil {
			return true
		}
	}
	move(p.dirEntry, from) // somebody was faster than we
	return false
}

// leave puts a parked placeholder into its place. Neither a lockedFile nor an error:
// there is none that could be used.
func (p stash) take(r record, to dirEntry) (*lockedFile, error) {
	seen, err := p.stat()
	if err != nil || !seen.there || !seen.mode.IsDir() || seen.uid != os.Geteuid() {
		return nil, nil
	}
	f, err := p.openOurs(seen)
	if err != nil {
		return nil, nil
	}
	done, err := p.moveOut(r, to, f)
	if done {
		return f, nil
	}
	f.release()
	return nil, err
}

// moveOut moves what is open into its place and locks it there.
func (p stash) moveOut(r record, to dirEntry, f *lockedFile) (done bool, err error) {
	if empty, err := emptyDir(f.fd); !empty || err != nil {
		return false, nil
	}
	// Its identity is known: if we die in between, the name is missing or ours.
	if err := r.add(lineMade(f.id)); err != nil {
		return false, err
	}
	moved := move(p.dirEntry, to)
	if moved == nil {
		err := f.lock(to, filelock.Shared)
		return err == nil, err
	}
	if err := r.add(lineGone); err != nil {
		return false, err
	}
	if moved == unix.EEXIST {
		return false, errExists
	}
	p.remove(true)
	return false, nil
}

// move renames, and never over something.
func move(from, to dirEntry) error {
	return at.Retry(func() error {
		return unix.Renameat2(from.parent, from.name, to.parent, to.name, unix.RENAME_NOREPLACE)
	})
}

// sweepStash removes what is parked without a registry file.
func (l *Ledger) sweepStash() {
	entries, err := os.ReadDir(l.stashDir.Name())
	if err != nil {
		return
	}
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(l.dir, e.Name())); os.IsNotExist(err) {
			dirEntry{int(l.stashDir.Fd()), e.Name()}.remove(true)
		}
	}
}
