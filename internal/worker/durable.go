package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/statedir"
)

// openDurable ends what an earlier durable server has left running, and takes over what it has recorded. If there is nothing, or
// nothing that can be read, it begins anew.
func (s *State) openDurable(log *slog.Logger) error {
	if err := s.dir.KillLeft(log); err != nil {
		log.Error("cannot end all commands of the server that was killed", "dir", s.dir.Own, "err", err)
	}
	err := s.takeOver(log)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, filelock.ErrHeld):
		s.taken = true // it is not ours to remove
		return fmt.Errorf("the memory of %s is in use: %w", s.dir.Own, err)
	case errors.Is(err, arena.ErrNewer):
		s.taken = true
		return fmt.Errorf("the server that was killed has left its state in %s: %w; start that version, or remove the directory", s.dir.Own, err)
	case !errors.Is(err, errNothing):
		log.Error("the state of the server that was killed cannot be read, and is removed", "dir", s.dir.Own, "err", err)
	}
	if err := s.dir.Reset(); err != nil {
		return err
	}
	path, err := s.dir.NewMemory()
	if err != nil {
		return err
	}
	if s.arena, err = arena.Create(arena.Config{Path: path}); err != nil {
		return err
	}
	if err := lock(s.arena.File()); err != nil {
		return err
	}
	for _, name := range s.dir.OtherMemory() {
		if err := removeUnnamed(name); err != nil {
			log.Warn("cannot remove the memory of a server whose directory is gone", "file", name, "err", err)
		}
	}
	return nil
}

// removeUnnamed removes a memory file if no server uses it, and the directory of its server is gone, or names another one.
func removeUnnamed(name string) error {
	file, err := arena.OpenPath(name)
	if err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	if err := filelock.Try(int(file.Fd()), filelock.Exclusive); err != nil {
		return errors.Join(ignore(err, filelock.ErrHeld), file.Close())
	}
	a, err := arena.Inspect(file)
	if err != nil {
		return errors.Join(ignore(err, arena.ErrDamaged), file.Close()) // it may be that of a server that is just starting
	}
	_, own, err := readServer(a)
	if err == nil && !statedir.Names(own, name) {
		err = os.Remove(name)
	}
	return errors.Join(ignore(err, arena.ErrDamaged), a.Close())
}

// ignore returns nil for one kind of error.
func ignore(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// errNothing means that no server has left anything.
var errNothing = errors.New("there is nothing")

// takeOver opens the memory of an earlier server.
func (s *State) takeOver(log *slog.Logger) error {
	path := s.dir.Memory()
	if path == "" {
		return errNothing
	}
	file, err := arena.OpenPath(path)
	if errors.Is(err, fs.ErrNotExist) {
		log.Warn("the state of the last server is lost: the memory that it was in is gone", "dir", s.dir.Own)
		return errNothing
	}
	if err != nil {
		return err
	}
	if err := lock(file); err != nil { // first: Open changes it
		return errors.Join(err, file.Close())
	}
	a, err := arena.Open(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	common, own, err := readServer(a)
	if err == nil {
		err = session.CheckJournal(a)
	}
	if err == nil && (common != s.dir.Shared || own != s.dir.Own) {
		err = fmt.Errorf("it belongs to %s", own)
	}
	if err != nil {
		return errors.Join(err, a.Close())
	}
	lost, err := session.Bury(a)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	s.arena, s.taken = a, true
	log.Warn("the server goes on after an earlier one was killed", "dir", s.dir.Own, "commandsLost", lost)
	return nil
}

// lockPatience is how long a server waits for the lock of its memory, which removeUnnamed of another server has for a moment.
const lockPatience = time.Second

// lock locks a memory file as long as a process of the server has it open.
func lock(file *os.File) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockPatience, filelock.ErrHeld)
	defer cancel()
	return filelock.Wait(ctx, int(file.Fd()), filelock.Exclusive)
}
