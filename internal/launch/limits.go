package launch

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// Least values of limits: with less, no program can be executed, or the kernel refuses the limit.
const (
	leastMemory    = 1 << 20
	leastCPUs      = 10 // thousandths
	leastFiles     = 16
	leastProcesses = 1

	// A sandbox has processes of its own, which count.
	leastInSandbox       = 24
	leastFilesInSandbox  = 64
	leastMemoryInSandbox = 32 << 20

	// mostTime is the longest time that can be asked for.
	mostTime = 366 * 24 * time.Hour
)

// A LimitError says that a limit has an invalid value.
type LimitError struct{ text string }

func (e *LimitError) Error() string { return e.text }

// Code is the code of the error in the protocol.
func (*LimitError) Code() int { return wire.CodeInvalidParams }

// limitNames are the names of limits in the protocol.
var limitNames = [proc.LimitCount]string{
	proc.LimitMemory: wire.LimitMemoryBytes, proc.LimitCPUs: wire.LimitCPUs, proc.LimitProcesses: wire.LimitProcesses,
	proc.LimitFiles: wire.LimitOpenFiles, proc.LimitDisk: wire.LimitDiskBytes, proc.LimitTime: wire.LimitTimeMs,
}

// unitOf is the unit of a limit in the protocol, in the unit of package proc.
func unitOf(l proc.Limit) uint64 {
	if l == proc.LimitTime {
		return uint64(time.Millisecond)
	}
	return 1
}

// InWire converts a limit to the unit of the protocol.
func InWire(l proc.Limit, value uint64) wire.Amount {
	if l == proc.LimitCPUs {
		return wire.Amount(value) / 1000
	}
	return wire.Amount(value / unitOf(l))
}

// counts are the limits that are whole numbers.
func counts(w *wire.Limits) [proc.LimitCount]*uint64 {
	return [proc.LimitCount]*uint64{
		proc.LimitMemory: w.MemoryBytes, proc.LimitProcesses: w.Processes, proc.LimitFiles: w.OpenFiles, proc.LimitDisk: w.DiskBytes, proc.LimitTime: w.TimeMs,
	}
}

// sent returns a limit as the client has sent it.
func sent(w *wire.Limits, l proc.Limit) string {
	if count := counts(w)[l]; count != nil {
		return strconv.FormatUint(*count, 10)
	}
	return string(w.CPUs.AppendJSON(nil))
}

// asked returns the limits that a client asks for, in the units of package proc.
func asked(w *wire.Limits) (limits proc.Limits) {
	for i, value := range counts(w) {
		if value != nil {
			unit := unitOf(proc.Limit(i))
			limits[i] = min(*value, math.MaxInt64/unit) * unit
		}
	}
	if w.CPUs != nil {
		limits[proc.LimitCPUs] = max(1, uint64(min(float64(*w.CPUs)*1000+0.5, math.MaxInt32)))
	}
	return limits
}

// least returns the least values of the limits of a command.
func least(inSandbox bool) proc.Limits {
	limits := proc.Limits{proc.LimitMemory: leastMemory, proc.LimitCPUs: leastCPUs, proc.LimitProcesses: leastProcesses, proc.LimitFiles: leastFiles}
	if inSandbox {
		limits[proc.LimitMemory], limits[proc.LimitProcesses], limits[proc.LimitFiles] = leastMemoryInSandbox, leastInSandbox, leastFilesInSandbox
	}
	return limits
}

// checkLimits decides which limits a command has. A client that asks for more than the server grants, more than all commands
// together get or more than the machine has is refused, or gets less if it says bestEffort.
func (l *Launcher) checkLimits(c *Command) error {
	var server proc.Limits
	if l.config.Limits != nil {
		server = l.config.Limits()
	}
	if c.params.Limits == nil {
		c.limits = server
		return nil
	}
	limits := asked(c.params.Limits)
	c.bestEffort = c.params.Limits.BestEffort != nil && *c.params.Limits.BestEffort
	machine := proc.MachineLimits()
	machine[proc.LimitTime] = uint64(mostTime)
	lowest := least(confined(c.params))
	for i, value := range limits {
		limit, granted := proc.Limit(i), server[i]
		if value == 0 {
			limits[i] = granted
			continue
		}
		if value < lowest[i] {
			where := "a command"
			if confined(c.params) {
				where = "a command in a sandbox"
			}
			return limitError(limit, "%s is less than %s needs: at least %s", sent(c.params.Limits, limit), where, InWire(limit, lowest[i]).AppendJSON(nil))
		}
		has := "this machine has"
		if limit == proc.LimitTime {
			has = "can be asked for"
		}
		for _, most := range []struct {
			value uint64
			of    string
		}{{granted, "this server grants to a command"}, {l.config.Total[i], "all commands of this server together get"}, {machine[i], has}} {
			if most.value == 0 || limits[i] <= most.value {
				continue
			}
			if !c.bestEffort {
				return limitError(limit, "%s is more than %s, which is %s; with `bestEffort` (`--best-effort`) the command gets that", sent(c.params.Limits, limit), most.of, InWire(limit, most.value).AppendJSON(nil))
			}
			limits[i] = most.value
		}
	}
	c.limits = limits
	return nil
}

// limitError describes an invalid value of a limit.
func limitError(l proc.Limit, format, sent, what string, bound []byte) error {
	return &LimitError{fmt.Sprintf("limits: `%s` "+format, limitNames[l], sent, what, bound)}
}

// CheckServerLimits refuses limits of a server that no command could have.
func CheckServerLimits(each, total proc.Limits) error {
	machine, lowest := proc.MachineLimits(), least(true)
	machine[proc.LimitTime] = uint64(mostTime)
	for i, value := range each {
		if l := proc.Limit(i); total[i] != 0 && value > total[i] {
			return fmt.Errorf("the limit of %s for a command, %s, is more than all commands together get: %s", l, InWire(l, value).AppendJSON(nil), InWire(l, total[i]).AppendJSON(nil))
		}
	}
	for _, limits := range []struct {
		of     string
		values proc.Limits
	}{{"a command", each}, {"all commands", total}} {
		for i, value := range limits.values {
			switch l := proc.Limit(i); {
			case value == 0:
			case value < lowest[i]:
				return fmt.Errorf("the limit of %s for %s, %s, is less than a command in a sandbox needs: at least %s", l, limits.of, InWire(l, value).AppendJSON(nil), InWire(l, lowest[i]).AppendJSON(nil))
			case machine[i] != 0 && value > machine[i]:
				return fmt.Errorf("the limit of %s for %s, %s, is more than this machine has: %s", l, limits.of, InWire(l, value).AppendJSON(nil), InWire(l, machine[i]).AppendJSON(nil))
			}
		}
	}
	return nil
}
