package server

import (
	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/statedir"
)

// Kept is what the keeper has for a server: what earlier processes of the same server have left.
type Kept struct {
	Arena  *arena.Arena
	State  *statedir.Dir
	Keeper proc.Keeper
	Held   session.Descriptors // descriptors of commands
	First  bool                // there was no earlier process
}

// OpenState makes the directory of a server.
func (c Config) OpenState() (*statedir.Dir, error) {
	if c.StateDir == "" {
		var err error
		if c.StateDir, err = statedir.Default(); err != nil {
			return nil, err
		}
	}
	return statedir.Open(c.StateDir)
}

// state returns the directory of the server, and what its supervisor needs.
func (c Config) state() (*statedir.Dir, proc.Config, error) {
	procs := proc.Config{Log: c.Log, Subreaper: c.Subreaper}
	var state *statedir.Dir
	var err error
	if c.Kept == nil {
		state, err = c.OpenState()
	} else {
		state, procs.Keeper = c.Kept.State, c.Kept.Keeper
	}
	if err != nil {
		return nil, procs, err
	}
	procs.Notes = state.Commands()
	return state, procs, nil
}

// restore brings back what earlier processes have left.
func (s *Server) restore() error {
	k := s.config.Kept
	if k == nil || k.First {
		return nil
	}
	s.procs.SweepUnclaimed(k.Arena)
	if err := s.sessions.Restore(k.Held); err != nil {
		return err
	}
	for number, files := range k.Held { // of slots that are free: their processes are gone
		k.Keeper.Free(number)
		for _, f := range files {
			f.Close()
		}
	}
	k.Held = nil
	if err := upload.Sweep(s.state.Uploads()); err != nil { // uploads end with their process
		s.log.Warn("cannot clean up after the uploads of an earlier process", "err", err)
	}
	return nil
}
