package server

import (
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
	if err := r.ownerOnly(); err != nil {
		return wire.ReloadResult{}, err
	}
	return s.config.Reload(), nil
}

// SetLimits changes the limits that a running server can change: those of each command and of the output of processes, and the times to live of
// sessions. Commands and sessions that exist keep theirs. None has a default. If they are not
// possible, nothing changes.
func (s *Server) SetLimits(other *Config) (changed bool, err error) {
	c := s.config
	c.TakeLimits(other)
	if err := c.Validate(); err != nil {
		return false, err
	}
	if err := c.checkLimits(s.procs); err != nil {
		return false, err
	}
	next := c.limits()
	s.limiting.Lock()
	defer s.limiting.Unlock()
	if s.limits == next {
		return false, nil
	}
	s.limits = next
	s.sessions.SetTerms(next.terms)
	s.pool.SetTotal(next.spoolTotal)
	return true, nil
}

func (s *Server) limitsNow() limits {
	s.limiting.Lock()
	defer s.limiting.Unlock()
	return s.limits
}

// limits are those that a running server can change.
type limits struct {
	terms      session.Terms // of new sessions and processes
	spoolTotal int64
	each       proc.Limits // of each command
}

func (c *Config) limits() limits {
	return limits{session.Terms{TTL: c.SessionTTL, MaxTTL: c.SessionTTLMax, Retain: c.Retain, SpoolLimit: c.SpoolLimit}, c.SpoolTotal, c.Limits}
}

// recordReload records what has become of settings that were read again.
func (s *Server) recordReload(settings []wire.ReloadedSettings) {
	for _, one := range settings {
		e := audit.Event{Event: audit.SettingsChanged, Kind: one.Kind, Reason: one.Error}
		if one.Error != "" {
			e.Event = audit.SettingsRefused
		}
		if one.Changed || one.Error != "" {
			s.audit.Record(e)
		}
	}
}
