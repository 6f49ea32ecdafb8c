package server

import (
	"fmt"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// CheckLimits returns an error if the limits cannot be enforced on this machine. It makes control groups to find that out, and
// removes them.
func (c Config) CheckLimits() error {
	if !c.Limits.Any() && !c.TotalLimits.Any() {
		return nil
	}
	procs := proc.New(proc.Config{Log: c.Log, OwnGroup: c.OwnGroup, Total: c.TotalLimits})
	defer procs.Close()
	return c.checkLimits(procs)
}

// checkLimits returns an error if a supervisor, which has the total limits, cannot enforce the limits.
func (c Config) checkLimits(procs *proc.Supervisor) error {
	if err := launch.CheckServerLimits(c.Limits, c.TotalLimits); err != nil {
		return err
	}
	if err := procs.CheckLimits(c.Limits); err != nil {
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
