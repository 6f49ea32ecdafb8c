package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/denial"
	"github.com/tetherexec/tether/wire"
)

// confined reports whether a client asks for a sandbox.
func confined(p *wire.StartParams) bool {
	return p.Sandbox != nil && p.Sandbox.Draft != wire.DraftDisabled
}

// nativeCwd returns the directory in which a command starts.
func nativeCwd(p *wire.StartParams) (string, error) {
	if confined(p) {
		return sandbox.NativeCwd(p.Cwd)
	}
	cwd, err := p.Cwd.Native()
	if err != nil {
		return "", fmt.Errorf("cwd URI `%s` %w: %w", p.Cwd, ErrInvalidCwd, err)
	}
	return cwd, nil
}

// exec starts spec, in the sandbox of the command if its client asks for one. If sink
// is nil, the output goes to the log of the command.
func (s *start) exec(ctx context.Context, spec proc.Spec, sink proc.Sink) (*proc.Process, error) {
	p := s.command.params
	if sink == nil { // the command itself
		if s.record != nil {
			spec.Slot = s.record.Slot
		}
		spec.Limits, spec.BestEffort = s.command.limits, s.command.bestEffort
	}
	if !confined(p) {
		if sink == nil {
			sink = s.log
		}
		return s.launcher.config.Procs.Start(ctx, spec, sink)
	}
	if s.launcher.config.Confiner == nil {
		return nil, ErrSandbox
	}
	request := confine.Request{
		Intent: p.Sandbox, Spec: spec,
		EnforceManagedNetwork: managed(p), AllUnixSockets: allUnixSockets(p),
	}
	if n := s.network; n != nil {
		request.Refusal = n.refusal
		if n.gate != nil {
			request.Gate = n.gate
		}
	}
	began := time.Now()
	child, _, err := s.launcher.config.Confiner.Start(ctx, request, func(prepared *confine.Prepared) proc.Sink {
		switch {
		case sink != nil:
			return sink
		case prepared.Unconfined:
			s.command.unconfined = true
			return s.log
		}
		s.recordPolicy(prepared.Policy)
		s.command.bound.Store(&boundPolicy{policy: prepared.Policy})
		return &judgedLog{Log: s.log, command: s.command, logger: s.launcher.log}
	})
	if sink == nil {
		s.command.setUp = [2]time.Time{began, time.Now()}
	}
	return child, err
}

// recordPolicy records what the details of a denial come from.
func (s *start) recordPolicy(p *sandbox.Policy) {
	if s.record == nil {
		return
	}
	if err := s.record.Policy(p.Encode()); err != nil {
		s.launcher.log.Warn("if this server is replaced, a denial of this command will be told without details", "process", s.command.params.ProcessID, "err", err)
	}
}

// Confined reports whether a command that was started has a sandbox with something to enforce.
func (c *Command) Confined() bool { return confined(c.params) && !c.unconfined }

// SetUp is when the sandbox of a command that was started began to be made, and when the program was executed in it; zero: it has none.
func (c *Command) SetUp() (begin, end time.Time) { return c.setUp[0], c.setUp[1] }

// NetworkType says what a command's network is: that of the machine, one with a proxy that checks hosts, or one that leads to the proxies of
// its client.
func (c *Command) NetworkType() string {
	switch {
	case c.rules != nil:
		return "proxy"
	case managed(c.params):
		return "managed"
	}
	return "machine"
}

// SandboxType is the name of the command's confinement, in the spelling that its
// client knows.
func (c *Command) SandboxType() string {
	switch s := c.params.Sandbox; {
	case !c.Confined():
		return "none"
	case s.Draft != wire.DraftNone:
		return draftSandboxType
	}
	return confine.SandboxType
}

// draftSandboxType replaces confine.SandboxType for clients that send the draft
// form.
const draftSandboxType = "linux-seccomp"

// A Denial says whether the sandbox made a command fail.
type Denial struct {
	Denied bool             // the sandbox is the probable cause of the failure
	Fact   *wire.DenialFact // details; nil: none
}

// Denial returns the denial of a command that has exited.
func (c *Command) Denial() Denial { return c.denial }

// ReachedLimit returns the name of the limit because of which the server has ended a command; "": it has not.
func (c *Command) ReachedLimit() string {
	if child := c.child.Load(); child != nil && child.TimedOut() {
		return wire.LimitTimeMs
	}
	return ""
}

// A judgedLog is the log of a confined command. It decides about a denial before the
// exit is in the log.
type judgedLog struct {
	*outlog.Log
	command *Command // gets the denial
	logger  *slog.Logger
}

// Exit implements proc.Sink.
func (l *judgedLog) Exit(code int) {
	if code != 0 {
		l.command.denial = l.judge(code)
	}
	l.command.shrink()
	l.Log.Exit(code)
}

// judgeTries is how many times the output is read, if some of it is dropped meanwhile.
const judgeTries = 3

// judge decides from the exit code and the newest output whether the sandbox made the
// command fail.
func (l *judgedLog) judge(code int) (d Denial) {
	var err error
	for range judgeTries {
		var judge denial.Judge
		err = l.Tail(denial.WindowBytes, denial.WindowEntries, func(e outlog.Entry) { judge.Add(e.Stream, e.Data) })
		d.Denied = judge.Denied(code)
		if !errors.Is(err, outlog.ErrEvicted) {
			break
		}
	}
	if err != nil {
		l.logger.Warn("cannot read all output of a failed command", "process", l.command.params.ProcessID, "err", err)
	}
	if d.Denied {
		d.Fact = l.explain(code)
	}
	return d
}

// explain returns the details of a denial; nil: none.
func (l *judgedLog) explain(code int) *wire.DenialFact {
	var recent denial.Recent
	policy, err := l.command.boundPolicy()
	if err != nil {
		l.logger.Warn("a denial has no details", "process", l.command.params.ProcessID, "err", err)
	}
	if policy == nil {
		return nil
	}
	if err := l.Tail(denial.RecentBytes, denial.WindowEntries, func(e outlog.Entry) { recent.Add(e.Stream, e.Data) }); err != nil {
		return nil
	}
	return denial.Explain(policy, code, &recent).Wire()
}
