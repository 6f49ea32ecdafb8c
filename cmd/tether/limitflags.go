package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// limitFlags are the flags that limit a command.
type limitFlags struct {
	memory, disk byteSize
	cpus         processors
	pids, files  count
	time         lifetime
	bestEffort   bool
}

func (l *limitFlags) define(fs *pflag.FlagSet) {
	fs.Var(&l.memory, "memory", "how much memory it may use; above, it is killed")
	fs.Var(&l.cpus, "cpus", "how many processors it may use, such as 1.5")
	fs.Var(&l.pids, "pids", "how many processes and threads it may have at a time")
	fs.Var(&l.files, "files", "how many files each of its processes may have open")
	fs.Var(&l.time, "time", "how long it may run; then the server ends it, also if tether has ended")
	fs.Var(&l.disk, "disk", "how large a file it may write; needs --best-effort, because the\nkernel limits each file on its own")
	fs.BoolVar(&l.bestEffort, "best-effort", false, "start the command although the machine cannot enforce a limit, or\nonly in part")
	group(fs, "Limits of the command and all that it starts", "memory", "cpus", "pids", "files", "time", "disk", "best-effort")
}

// given reports whether a limit is asked for.
func (l *limitFlags) given() bool { return *l != limitFlags{} }

// limits returns what the flags ask for; nil: nothing.
func (l *limitFlags) limits() *wire.Limits {
	if !l.given() {
		return nil
	}
	limits := &wire.Limits{
		MemoryBytes: above(uint64(l.memory)), DiskBytes: above(uint64(l.disk)), Processes: above(uint64(l.pids)), OpenFiles: above(uint64(l.files)),
	}
	if l.cpus > 0 {
		limits.CPUs = new(wire.Amount(l.cpus))
	}
	if l.time > 0 {
		limits.TimeMs = above(uint64(max(1, time.Duration(l.time).Milliseconds())))
	}
	if l.bestEffort {
		limits.BestEffort = &l.bestEffort
	}
	return limits
}

// endedByTime reports whether the server has ended a command because its time was up.
func endedByTime(p *client.Process, end terminal.Ending) bool {
	if !end.Exited {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), verdictPatience)
	defer cancel()
	exit, err := p.Result(ctx)
	return err == nil && exit.Limit == wire.LimitTimeMs
}

// timeLimitText names the limit of the time that was reached.
func timeLimitText(l *wire.LimitsInForce) string {
	if l == nil || l.TimeMs == nil {
		return "its time was up"
	}
	limit := lifetime(time.Duration(l.TimeMs.Limit) * time.Millisecond)
	return "its time limit of " + limit.String() + " was reached"
}

// above returns a number; nil if it is 0.
func above(n uint64) *uint64 {
	if n == 0 {
		return nil
	}
	return &n
}

// serverLimitFlags are the flags of a server that limit its commands.
type serverLimitFlags struct {
	memory, totalMemory byteSize
	cpus, totalCPUs     processors
	pids, totalPids     count
	files               count
	time                lifetime
}

func (l *serverLimitFlags) define(fs *pflag.FlagSet) {
	const each = " each command; clients may ask for less"
	fs.Var(&l.memory, "limit-memory", "memory of"+each)
	fs.Var(&l.cpus, "limit-cpus", "processors of"+each)
	fs.Var(&l.pids, "limit-pids", "processes and threads of"+each)
	fs.Var(&l.files, "limit-files", "open files of each process of a command")
	fs.Var(&l.time, "limit-time", "how long each command may run; clients may ask for less")
	fs.Var(&l.totalMemory, "limit-total-memory", "memory of all commands together")
	fs.Var(&l.totalCPUs, "limit-total-cpus", "processors of all commands together")
	fs.Var(&l.totalPids, "limit-total-pids", "processes and threads of all commands together")
	group(fs, "Limits of commands (the server does not start if the machine cannot enforce them)",
		"limit-memory", "limit-cpus", "limit-pids", "limit-files", "limit-time", "limit-total-memory", "limit-total-cpus", "limit-total-pids")
}

// limits returns those of each command, and of all together.
func (l *serverLimitFlags) limits() (each, total proc.Limits) {
	each = proc.Limits{
		proc.LimitMemory: uint64(l.memory), proc.LimitCPUs: l.cpus.thousandths(), proc.LimitProcesses: uint64(l.pids),
		proc.LimitFiles: uint64(l.files), proc.LimitTime: uint64(l.time),
	}
	total = proc.Limits{proc.LimitMemory: uint64(l.totalMemory), proc.LimitCPUs: l.totalCPUs.thousandths(), proc.LimitProcesses: uint64(l.totalPids)}
	return each, total
}

// processors is a number of processors, which may have a fraction.
type processors float64

// mostProcessors is more than any machine has.
const mostProcessors = 1 << 20

func (p *processors) Set(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0.001 && f <= mostProcessors) { // not a number is neither
		return errors.New("expected a number of processors such as 2 or 1.5")
	}
	*p = processors(f)
	return nil
}

func (p *processors) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*p), 'f', -1, 64)
}

func (*processors) Type() string { return "NUMBER" }

func (p *processors) thousandths() uint64 { return uint64(float64(*p)*1000 + 0.5) }
