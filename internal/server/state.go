package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/upload"
)

// A stateDir is a directory that belongs to one running server. It is locked as
// long as the server lives; what a dead one left behind is removed by the next.
type stateDir struct {
	parent string // what servers share
	path   string
	lock   *os.File
}

const (
	stateDirPattern = "server-*"
	stateLockName   = "lock"
	uploadsName     = "uploads"  // the journal of uploads
	commandsName    = "commands" // the notes about commands
)

// openStateDir creates a directory for this server below parent and removes
// those whose owners are gone.
func openStateDir(parent string, log *slog.Logger) (*stateDir, error) {
	parent, err := TrustedDir(parent)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	unlock, err := lockFile(filepath.Join(parent, stateLockName))
	if err != nil {
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	defer unlock.Close()
	sweepStateDirs(parent, log)
	path, err := os.MkdirTemp(parent, stateDirPattern)
	if err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(path, stateLockName))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock state directory: %w", err), os.RemoveAll(path))
	}
	return &stateDir{parent, path, lock}, nil
}

// sweepStateDirs removes the directories of this user whose lock is free. The parent is
// locked, so none of them is just being made.
func sweepStateDirs(parent string, log *slog.Logger) {
	old, _ := filepath.Glob(filepath.Join(parent, stateDirPattern)) // the pattern is well-formed
	for _, path := range old {
		if !ownDir(path) {
			log.Warn("cannot remove the state of a server that is gone: not a directory of this user", "dir", path)
			continue
		}
		lock, err := tryLockFile(filepath.Join(path, stateLockName))
		if err != nil {
			continue
		}
		if err := proc.SweepNotes(filepath.Join(path, commandsName), log); err != nil {
			log.Warn("cannot end the commands of a server that is gone", "dir", path, "err", err)
		}
		if err := upload.Sweep(filepath.Join(path, uploadsName)); err != nil {
			log.Warn("cannot clean up after the uploads of a server that is gone", "dir", path, "err", err)
			lock.Close()
			continue // the next server tries again
		}
		if err := os.RemoveAll(path); err != nil {
			log.Warn("cannot remove the state of a server that is gone", "dir", path, "err", err)
		}
		lock.Close()
	}
}

func (d *stateDir) close() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}
