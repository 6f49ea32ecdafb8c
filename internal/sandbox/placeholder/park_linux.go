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
type parkedSpot struct{ spot }

// parkSuffix makes the name of the directory beside the registry.
const parkSuffix = "-parked"

func openPark(registry string) (*os.File, error) {
	dir := registry + parkSuffix
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
func (l *Ledger) parked(r record) parkedSpot {
	return parkedSpot{spot{int(l.park.Fd()), filepath.Base(r.file)}}
}

// enter parks the placeholder that was seen at its own spot, and on which the
// caller has the exclusive lock. False: it stays.
func (p parkedSpot) enter(from spot, seen sight) bool {
	if empty, err := from.empty(seen); !empty || err != nil {
		return false
	}
	if move(from, p.spot) != nil {
		return false
	}
	now, err := p.look()
	if err == nil && now.id.same(seen.id) {
		if empty, err := p.empty(now); empty && err == nil {
			return true
		}
	}
	move(p.spot, from) // somebody was faster than we
	return false
}

// leave puts a parked placeholder into its place. Neither a grip nor an error:
// there is none that could be used.
func (p parkedSpot) leave(r record, to spot) (*grip, error) {
	seen, err := p.look()
	if err != nil || !seen.there || !seen.mode.IsDir() || seen.uid != os.Geteuid() {
		return nil, nil
	}
	g, err := p.openOurs(seen)
	if err != nil {
		return nil, nil
	}
	done, err := p.moveOut(r, to, g)
	if done {
		return g, nil
	}
	g.release()
	return nil, err
}

// moveOut moves what is open into its place and locks it there.
func (p parkedSpot) moveOut(r record, to spot, g *grip) (done bool, err error) {
	if empty, err := emptyDir(g.fd); !empty || err != nil {
		return false, nil
	}
	// Its identity is known: if we die in between, the name is missing or ours.
	if err := r.add(lineMade(g.id)); err != nil {
		return false, err
	}
	moved := move(p.spot, to)
	if moved == nil {
		err := g.lock(to, filelock.Shared)
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
func move(from, to spot) error {
	return at.Retry(func() error {
		return unix.Renameat2(from.parent, from.name, to.parent, to.name, unix.RENAME_NOREPLACE)
	})
}

// sweepPark removes what is parked without a registry file.
func (l *Ledger) sweepPark() {
	entries, err := os.ReadDir(l.park.Name())
	if err != nil {
		return
	}
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(l.dir, e.Name())); os.IsNotExist(err) {
			spot{int(l.park.Fd()), e.Name()}.remove(true)
		}
	}
}
