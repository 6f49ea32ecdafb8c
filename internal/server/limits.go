package server

import (
	"fmt"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// checkLimits returns an error if the limits of this server cannot be enforced on this machine.
func (s *Server) checkLimits() error {
	if err := launch.CheckServerLimits(s.config.Limits, s.config.TotalLimits); err != nil {
		return err
	}
	if err := s.procs.CheckLimits(s.config.Limits); err != nil {
		return fmt.Errorf("the limits of this server: %w", err)
	}
	return nil
}

// inForce describes limits to a client; nil: there are none.
func inForce(e proc.Enforced) *wire.LimitsInForce {
	if !e.Limits.Any() {
		return nil
	}
	one := func(l proc.Limit) *wire.LimitInForce {
		if e.Limits[l] == 0 {
			return nil
		}
		return &wire.LimitInForce{Limit: launch.InWire(l, e.Limits[l]), By: e.By[l].String()}
	}
	return &wire.LimitsInForce{
		MemoryBytes: one(proc.LimitMemory), CPUs: one(proc.LimitCPUs), Processes: one(proc.LimitProcesses),
		OpenFiles: one(proc.LimitFiles), DiskBytes: one(proc.LimitDisk), TimeMs: one(proc.LimitTime),
	}
}
