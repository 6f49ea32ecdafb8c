package session

import (
	"errors"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/proc"
)

// Bury records in an arena that the keeper has died, before a table restores its sessions: everything that was running is gone,
// and so are all descriptors. Processes without an exit have failed, and uploads that are not complete have ended. It returns how
// many processes these are. Burying twice is harmless.
func Bury(a *arena.Arena) (lost int, err error) {
	r := restoring{table: &Table{config: Config{Kept: &Kept{Arena: a}}}, uploads: map[uint64]*recordedUpload{}}
	err = a.Journal().Replay(func(n *arena.Note, kind arena.NoteKind, payload []byte) error {
		if kind != noteUpload {
			return nil
		}
		if err := r.visitUpload(n, payload); !errors.Is(err, arena.ErrDamaged) {
			return err
		}
		return nil // Restore leaves it out, too
	})
	if err != nil {
		return 0, err
	}
	for _, u := range r.uploads {
		if len(u.state) > 0 && !upload.Committed(u.state) {
			if err := u.Put(nil); err != nil {
				return 0, err
			}
		}
	}
	return proc.Bury(a), nil
}

// lostText tells the client why a process has failed.
const lostText = "the server was killed while the command was running: the command was ended, and its last output may be missing"

// Failure says why a process that has exited has no exit code of its own; "": it has one, or the system did not tell it.
func (p *Process) Failure() string {
	if child := p.startedChild(); child != nil && child.Lost() {
		return lostText
	}
	return ""
}
