package proc

import (
	"math"
	"time"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/crash"
)

// A BlockMeter is a Sink that knows for how long Append has blocked so far, because no more output could be taken.
type BlockMeter interface {
	Sink
	BlockedFor() time.Duration
}

// An ending is how a child has ended.
type ending struct {
	code     int              // as in Sink.Exit
	used     *account.Figures // nil: not known
	init     *account.Figures // of the process that has waited for all others of a launcher; nil: not known, or none
	recorded bool             // an earlier program has seen it
}

// Usage returns what the child and everything that it started had used when the child exited. ok is false before the
// exit, and if the exit was recorded by a program that did not know of it.
func (p *Process) Usage() (u account.Usage, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.usage.figures, p.usage.known
}

// usage is what a process has used until its exit.
type usage struct {
	figures account.Usage
	known   bool
}

// measure returns the usage of a child that has just ended.
func (p *Process) measure(e ending) usage {
	if u, ok := p.child.kept.usage(); ok {
		return usage{u, true}
	}
	if e.recorded {
		return usage{}
	}
	var u account.Usage
	switch l, launched := p.spec.Launcher, &p.child.launched; {
	case l != nil && l.Stays && launched.Init != nil: // the launcher has not waited for all processes, but this one has
		if e.init != nil {
			u = e.init.Usage()
		}
	case l != nil && l.Stays && launched.Leader == nil: // the command was not executed
	case e.used != nil:
		u = e.used.UsageOf(p.child.inherited)
	}
	groups := p.child.groups()
	groups.Add(&u)
	u.Wall = max(0, time.Since(p.startedAt))
	if m, ok := p.sink.(BlockMeter); ok {
		u.Blocked = m.BlockedFor()
	}
	return usage{u, true}
}

var pointUsed = crash.NewPoint("proc.used")

// begins records what is needed to account for the process.
func (k *kept) begins(inherited uint64, groups account.Groups) {
	w := &k.slot.Usage
	w.Inherited.Store(inherited, pointDetail)
	w.CgroupUser.Store(uint64(groups.Before.User), pointDetail)
	fresh := uint64(0)
	if groups.Fresh {
		fresh = 1
	}
	w.CgroupFresh.Store(fresh, pointDetail)
	w.Begun.Store(k.slot.Serial.Load(), pointDetail)
}

// hasInit records the process whose end ends all others of a launcher.
func (k *kept) hasInit(pid int) { k.slot.Usage.Init.Store(uint64(pid), pointDetail) }

// init returns what hasInit has recorded; 0: nothing.
func (k *kept) init() int {
	if k == nil || k.slot.Usage.Begun.Load() != k.slot.Serial.Load() {
		return 0
	}
	return int(k.slot.Usage.Init.Load())
}

// inherited returns what begins has recorded; 0: nothing.
func (k *kept) inherited() uint64 {
	if w := &k.slot.Usage; w.Begun.Load() == k.slot.Serial.Load() {
		return w.Inherited.Load()
	}
	return 0
}

// cgroupBefore returns the CPU time of earlier processes in the cgroup of a slot, and whether the cgroup is for this process only.
func cgroupBefore(slot *arena.Slot) (before account.CPU, fresh bool) {
	total := time.Duration(slot.CgroupCPU.Load())
	w := &slot.Usage
	switch {
	case w.Begun.Load() == slot.Serial.Load():
		user := time.Duration(w.CgroupUser.Load())
		return account.CPU{User: user, System: total - user, Of: account.Tree}, w.CgroupFresh.Load() != 0
	case total == 0:
		return account.CPU{Of: account.Tree}, false
	}
	return account.CPU{System: total}, false // recorded by a program that did not split it
}

// The parts of the word Details. The numbers are the same in all versions.
const (
	detailCPU       = 0  // scope, 4 bits
	detailMemory    = 4  // scope, 4 bits
	detailIO        = 8  // scope, 4 bits
	detailCause     = 12 // of a kill, 2 bits
	detailKilled    = 16 // number of processes, 16 bits
	detailProcesses = 32 // number of processes, 32 bits
)

// used records the usage.
func (k *kept) used(u usage) {
	if k == nil || !u.known {
		return
	}
	serial := k.slot.Serial.Load()
	w, f := &k.slot.Usage, &u.figures
	if w.Ended.Load() == serial {
		return
	}
	w.Wall.Store(uint64(f.Wall), pointUsed)
	w.Blocked.Store(uint64(f.Blocked), pointUsed)
	w.User.Store(uint64(f.CPU.User), pointUsed)
	w.System.Store(uint64(f.CPU.System), pointUsed)
	w.Memory.Store(f.Memory.Bytes, pointUsed)
	w.Read.Store(f.IO.Read, pointUsed)
	w.Written.Store(f.IO.Written, pointUsed)
	details := uint64(f.CPU.Of)<<detailCPU | uint64(f.Memory.Of)<<detailMemory | uint64(f.IO.Of)<<detailIO |
		uint64(f.Kill.Cause)<<detailCause | min(f.Kill.Processes, math.MaxUint16)<<detailKilled | min(f.Processes, math.MaxUint32)<<detailProcesses
	w.Details.Store(details, pointUsed)
	w.KillSize.Store(f.Kill.Limit, pointUsed)
	w.Ended.Store(serial, pointUsed)
}

// usage returns what used has recorded.
func (k *kept) usage() (u account.Usage, ok bool) {
	if k == nil || k.slot.Usage.Ended.Load() != k.slot.Serial.Load() {
		return u, false
	}
	w := &k.slot.Usage
	details := w.Details.Load()
	scope := func(shift int) account.Scope {
		if of := account.Scope(details >> shift & 15); of <= account.Bound {
			return of
		}
		return account.Unknown // recorded by a newer program
	}
	return account.Usage{
		Wall: time.Duration(w.Wall.Load()), Blocked: time.Duration(w.Blocked.Load()),
		CPU:       account.CPU{User: time.Duration(w.User.Load()), System: time.Duration(w.System.Load()), Of: scope(detailCPU)},
		Memory:    account.Memory{Bytes: w.Memory.Load(), Of: scope(detailMemory)},
		IO:        account.IO{Read: w.Read.Load(), Written: w.Written.Load(), Of: scope(detailIO)},
		Processes: details >> detailProcesses,
		Kill:      account.Kill{Processes: details >> detailKilled & math.MaxUint16, Cause: account.Cause(details >> detailCause & 3), Limit: w.KillSize.Load()},
	}, true
}
