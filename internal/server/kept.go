package server

import (
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/outlog"
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
	First  bool                // there was no earlier process, nor an earlier server
	Beat   time.Duration       // how often the keeper wants a sign of life; 0: never
	Deaths int                 // how many processes in a row have died soon after their start

	// Probation is until when an earlier version may have to go on with what this process records.
	Probation time.Time

	// Listener is where the server will serve. Proxies of commands need to know it before.
	Listener *listen.Listener
	// Leave tells the keeper that a process outlives the server.
	Leave func(pid int) error
	// Workers tells about the keeper and its workers, without the version.
	Workers func() wire.KeeperState
	// Upgrade replaces this process by another program; "": the file from which the server was started. It returns nil when the
	// program is about to take over: then Drain is called.
	Upgrade func(program string) error
}

// SharedState is the directory that servers share.
func (c Config) SharedState() (string, error) {
	if c.StateDir != "" {
		return c.StateDir, nil
	}
	return statedir.Default()
}

// OpenState makes the directory of a server.
func (c Config) OpenState() (*statedir.Dir, error) {
	shared, err := c.SharedState()
	if err != nil {
		return nil, err
	}
	if c.Durable {
		return statedir.OpenDurable(shared)
	}
	return statedir.Open(shared)
}

// state returns the directory of the server, and what its supervisor needs.
func (c Config) state() (*statedir.Dir, proc.Config, error) {
	procs := proc.Config{Log: c.Log, Subreaper: c.Subreaper, OwnGroup: c.OwnGroup, Total: c.TotalLimits}
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
	if state.Durable() {
		procs.Groups = state.Groups()
	}
	return state, procs, nil
}

// restore brings back what earlier processes have left.
func (s *Server) restore(uploads *upload.Journal, pool *outlog.Pool) error {
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
	if err := pool.Sweep(k.Arena); err != nil {
		s.log.Warn("cannot remove the output of commands that are forgotten", "err", err)
	}
	if err := uploads.Sweep(); err != nil { // those of which nothing was recorded, and those of sessions that have ended
		s.log.Warn("cannot clean up after the uploads of an earlier process", "err", err)
	}
	return nil
}

// Check returns when the server can do something. It does not return if the server hangs.
func (s *Server) Check() { s.sessions.Len() }
