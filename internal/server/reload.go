package server

import (
	"os"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// featureReload is the feature of a server that can read its settings again.
const featureReload = "reload"

// reload reads the settings of this server again.
func (r *request) reload(*wire.NoParams) (wire.ReloadResult, error) {
	s := r.conn.server
	if s.config.Reload == nil {
		return wire.ReloadResult{}, wire.Errorf(wire.CodeInvalidRequest, "this server cannot read its settings again")
	}
	if err := r.conn.fromOwner(); err != nil {
		r.conn.log.Warn("a client may not let this server read its settings again", "err", err)
		return wire.ReloadResult{}, wire.Errorf(wire.CodeInvalidRequest, "only the user of the server may do that, over its Unix socket: %v; without one, send SIGHUP to process %d", err, s.mainPID())
	}
	return s.config.Reload(), nil
}

// mainPID is the process that stands for the server, and gets its signals.
func (s *Server) mainPID() int {
	if k := s.config.Kept; k != nil {
		return k.Workers().KeeperPID
	}
	return os.Getpid()
}

// SetLimits changes the limits that a running server can change: those of each command and of the output of processes, and the times to live of
// sessions. Commands and sessions that exist keep theirs. If c is not possible, nothing changes.
func (s *Server) SetLimits(c Config) (changed bool, err error) {
	if err := c.Validate(); err != nil {
		return false, err
	}
	c = c.WithDefaults()
	c.TotalLimits = s.config.TotalLimits
	if err := c.checkLimits(s.procs); err != nil {
		return false, err
	}
	next := limits{c.terms(), c.SpoolTotal, c.Limits}
	if *s.limits.Load() == next {
		return false, nil
	}
	s.limits.Store(&next)
	s.sessions.SetTerms(next.terms)
	s.pool.SetTotal(next.spoolTotal)
	return true, nil
}

// limits are those that a running server can change.
type limits struct {
	terms      session.Terms // of new sessions and processes
	spoolTotal int64
	each       proc.Limits // of each command
}

func (c Config) terms() session.Terms {
	return session.Terms{TTL: c.SessionTTL, MaxTTL: c.SessionTTLMax, Retain: c.Retain, SpoolLimit: c.SpoolLimit}
}

// recordReload records what has become of settings that were read again.
func (s *Server) recordReload(settings []wire.ReloadedSettings) {
	for _, one := range settings {
		switch {
		case one.Error != "":
			s.audit.Record(audit.Event{Event: audit.SettingsRefused, Kind: one.Kind, Reason: one.Error})
		case one.Changed:
			s.audit.Record(audit.Event{Event: audit.SettingsChanged, Kind: one.Kind})
		}
	}
}
