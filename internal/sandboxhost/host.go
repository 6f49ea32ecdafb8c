package sandboxhost

import (
	"errors"
	"log/slog"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/statedir"
)

// A Host confines commands on this machine without a server.
type Host struct {
	Procs    *proc.Supervisor
	Confiner *confine.Confiner
	state    *statedir.Dir
}

// Options say how a host confines commands.
type Options struct {
	// StateDir is shared with servers, because they must know each other's placeholders; empty: the default one.
	StateDir    string
	UserSockets bool // see [confine.Config]
	Backend     confine.Backend
}

// Open opens a host.
func Open(o Options) (*Host, error) {
	stateDir := o.StateDir
	if stateDir == "" {
		var err error
		if stateDir, err = statedir.Default(); err != nil {
			return nil, err
		}
	}
	log := slog.New(slog.DiscardHandler)
	state, err := statedir.Open(stateDir)
	if err != nil {
		return nil, err
	}
	state.Sweep(log)
	h := &Host{state: state}
	h.Procs = proc.New(proc.Config{Log: log})
	h.Confiner = confine.New(confine.Config{
		Procs: h.Procs, Shared: state.Shared, Own: state.Own,
		Private:     func() []string { return append([]string{state.Shared}, statedir.Private(log)...) },
		UserSockets: o.UserSockets, Backend: o.Backend, Log: log,
	})
	return h, nil
}

// StateDir returns the state directory that the host shares with servers.
func (h *Host) StateDir() string { return h.state.Shared }

// Close ends all commands and gives up the state directory.
func (h *Host) Close() error {
	err := h.Confiner.Close()
	h.Procs.Close()
	err = errors.Join(err, h.state.Close())
	_, unswept := h.Confiner.StartSweeper()
	return errors.Join(err, unswept)
}
