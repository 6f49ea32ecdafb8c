package server

import (
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/statedir"
	"github.com/tetherexec/tether/wire"
)

// Kept is what the keeper has for a server: what earlier processes of the same server have left.
type Kept struct {
	Arena  *arena.Arena
	State  *statedir.Dir
	Keeper proc.Keeper
	Held   session.Descriptors // descriptors of commands, and in slot 0 of the server
	First  bool                // there was no earlier process
	Beat   time.Duration       // how often the keeper wants a sign of life; 0: never
	Deaths int                 // how many processes in a row have died soon after their start

	// Listener is where the server will serve. Proxies of commands need to know it before.
	Listener *listen.Listener
	// Workers tells about the keeper and its workers, without the version.
	Workers func() wire.KeeperState
	// Upgrade replaces this process by another program; "": the file from which the server was started. It returns nil when the
	// program is about to take over: then Drain is called.
	Upgrade func(program string) error
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
	procs := proc.Config{Log: c.Log, Subreaper: c.Subreaper, OwnGroup: c.OwnGroup, Total: c.TotalLimits,
		Weights: c.OwnGroup && (c.Limits.Any() || c.TotalLimits.Any())}
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
func (s *Server) restore(uploads *upload.Journal) error {
	k := s.config.Kept
	if k == nil || k.First {
		return nil
	}
	s.listener.Store(k.Listener)
	s.procs.SweepUnclaimed(k.Arena)
	if err := s.sessions.Restore(k.Held, k.Deaths); err != nil {
		return err
	}
	for number, files := range k.Held { // of slots that are free: their processes are gone
		k.Keeper.Free(number)
		for _, f := range files {
			f.Close()
		}
	}
	k.Held = nil
	if err := uploads.Sweep(); err != nil { // those of which nothing was recorded, and those of sessions that have ended
		s.log.Warn("cannot clean up after the uploads of an earlier process", "err", err)
	}
	return nil
}

// Check returns when the server can do something. It does not return if the server hangs.
func (s *Server) Check() { s.sessions.Len() }
