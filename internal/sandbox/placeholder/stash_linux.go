package placeholder

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/files/at"
)

// A stash keeps an unused placeholder directory for the next command in the same
// workspace, which will probably need it again. Making and removing a directory
// can cost half a millisecond on some file systems, moving it costs a tenth of
// that. So the directory is moved beside the registry, if that is on the same
// file system.
//
// A directory is stashed for its own path only. If a program still has it open,
// that program had access at that path before. A directory with content is never
// moved. A stashed directory is protected by the lock of the registry file with
// the same name, and is removed with that file.
type stash struct{ dirEntry }

// stashSuffix makes the name of the stash directory beside the registry. The
// name stays as it is because servers of several versions share it.
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

// stashOf returns the stash of a record's placeholder.
func (l *Ledger) stashOf(r record) stash {
	return stash{dirEntry{int(l.stashDir.Fd()), filepath.Base(r.file)}}
}

// put stashes the placeholder at from, which is the directory f with the exclusive
// lock. It returns false if the placeholder stays.
func (s stash) put(from dirEntry, f *lockedFile) bool {
	if !f.stillEmpty() || move(from, s.dirEntry) != nil {
		return false
	}
	now, err := s.stat()
	if err == nil && now.id.same(f.id) && f.stillEmpty() {
		return true
	}
	move(s.dirEntry, from) // content appeared meanwhile
	return false
}

// take moves a stashed placeholder to its path. It returns neither a lockedFile nor
// an error if there is none that can be used.
func (s stash) take(r record, to dirEntry) (*lockedFile, error) {
	seen, err := s.stat()
	if err != nil || !seen.there || !seen.mode.IsDir() || seen.uid != os.Geteuid() {
		return nil, nil
	}
	f, err := s.openOurs(seen)
	if err != nil {
		return nil, nil
	}
	done, err := s.moveOut(r, to, f)
	if done {
		return f, nil
	}
	f.release()
	return nil, err
}

// moveOut moves the open directory to its path and locks it there.
func (s stash) moveOut(r record, to dirEntry, f *lockedFile) (done bool, err error) {
	if empty, err := emptyDir(f.fd); !empty || err != nil {
		return false, nil
	}
	// Its identity is known: if this process dies now, the name is missing or
	// ours.
	if err := r.add(lineMade(f.id)); err != nil {
		return false, err
	}
	moved := move(s.dirEntry, to)
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
	s.remove(true)
	return false, nil
}

// move renames, and never replaces an existing name.
func move(from, to dirEntry) error {
	return at.Retry(func() error {
		return unix.Renameat2(from.parent, from.name, to.parent, to.name, unix.RENAME_NOREPLACE)
	})
}

// sweepStash removes stashed directories that have no registry file.
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
