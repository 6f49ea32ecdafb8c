package session

import (
	"slices"
	"time"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// Usage is the account of a process that has exited; nil: it is not known.
func (p *Process) Usage() *wire.Usage { return wireUsage(p.startedChild()) }

// Survivors are the processes of a closed process that were killed and are still there.
func (p *Process) Survivors() []wire.Survivor { return WireSurvivors(p.startedChild()) }

// startedChild returns the child; nil: it is starting.
func (p *Process) startedChild() *proc.Process {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.child
}

// Survivors are the processes of a session that has ended which were killed and are still there.
func (s *Session) Survivors() (left []wire.Survivor) {
	s.mu.Lock()
	children := slices.Clone(s.processes.leftovers)
	for _, p := range s.processes.byID {
		children = append(children, p.child)
	}
	s.mu.Unlock()
	for _, child := range children {
		if len(left) < wire.MaxSurvivors {
			left = append(left, WireSurvivors(child)...)
		}
	}
	return left
}

// scopes are the words for what a figure covers.
var scopes = [...]string{account.Tree: wire.OfTree, account.Waited: wire.OfWaited, account.Largest: wire.OfLargest, account.Bound: wire.OfBound}

func wireUsage(child *proc.Process) *wire.Usage {
	if child == nil {
		return nil
	}
	used, ok := child.Usage()
	if !ok {
		return nil
	}
	u := &wire.Usage{WallUs: micros(used.Wall), BlockedUs: micros(used.Blocked)}
	if of := used.CPU.Of; of != account.Unknown {
		user, system := micros(used.CPU.User), micros(used.CPU.System)
		u.UserUs, u.SystemUs, u.CPUOf = &user, &system, scopes[of]
	}
	if of := used.Memory.Of; of != account.Unknown {
		u.MemoryPeakBytes, u.MemoryOf = &used.Memory.Bytes, scopes[of]
	}
	if of := used.IO.Of; of != account.Unknown {
		u.ReadBytes, u.WrittenBytes, u.IOOf = &used.IO.Read, &used.IO.Written, scopes[of]
	}
	if used.Processes > 0 {
		u.Processes = &used.Processes
	}
	if kill := used.Kill; kill.Processes > 0 {
		u.MemoryKill = &wire.MemoryKill{Processes: kill.Processes, Limit: wire.LimitOuter}
		switch kill.Cause {
		case account.OwnLimit:
			u.MemoryKill.Limit = wire.LimitCommand
		case account.TotalLimit:
			u.MemoryKill.Limit = wire.LimitServer
		}
		if kill.Limit > 0 {
			u.MemoryKill.Bytes = &kill.Limit
		}
	}
	return u
}

func micros(d time.Duration) uint64 { return uint64(max(0, d.Microseconds())) }

// WireSurvivors are the survivors of a process in the form of the protocol.
func WireSurvivors(child *proc.Process) (left []wire.Survivor) {
	if child == nil {
		return nil
	}
	for _, s := range child.Survivors() {
		left = append(left, wire.Survivor{PID: s.PID, State: string(s.State), Command: s.Name, Reason: s.Reason()})
	}
	return left
}
