package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/denial"
	"github.com/tetherexec/tether/wire"
)

// confined reports whether a start asks for a sandbox.
func confined(p *wire.StartParams) bool {
	return p.Sandbox != nil && p.Sandbox.Draft != wire.DraftDisabled
}

// nativeCwd returns where a command starts.
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

// launch starts a process, in its network.
func (s *Session) launch(p *Process) (child *proc.Process, err error) {
	l := &launch{session: s, process: p, spec: p.spec()}
	if l.network, err = s.openNetwork(p, l.spec.Env); err != nil {
		return nil, err
	}
	if l.network == nil {
		return l.run()
	}
	l.spec.Env = l.network.env
	if child, err = l.run(); err != nil {
		l.network.close()
		return nil, err
	}
	s.networks.Go(func() { // ends with the process
		<-child.Done()
		l.network.close()
	})
	return child, nil
}

// A launch is a start that is under way.
type launch struct {
	session *Session
	process *Process
	spec    proc.Spec
	network *network // nil: everybody's
}

func (l *launch) run() (*proc.Process, error) {
	if l.process.snapshot != nil {
		if child, ok, err := l.restored(); ok {
			return child, err
		}
	}
	return l.start(l.session.ctx, l.spec, nil)
}

// start starts a command of a process, in its sandbox if it asks for one. Without a
// sink, its output is that of the process.
func (l *launch) start(ctx context.Context, spec proc.Spec, sink proc.Sink) (*proc.Process, error) {
	s, p := l.session, l.process
	if !confined(p.params) {
		if sink == nil {
			sink = p.Log
		}
		return s.table.config.Procs.Start(ctx, spec, sink)
	}
	confiner := s.table.config.Confiner
	if confiner == nil {
		return nil, ErrSandbox
	}
	request := confine.Request{
		Intent: p.params.Sandbox, Spec: spec,
		EnforceManagedNetwork: managed(p.params), AllUnixSockets: allUnixSockets(p.params),
	}
	if n := l.network; n != nil {
		request.Refusal = n.refusal
		if n.gate != nil {
			request.Gate = n.gate
		}
	}
	child, _, err := confiner.Start(ctx, request, func(prepared *confine.Prepared) proc.Sink {
		switch {
		case sink != nil:
			return sink
		case prepared.Unconfined:
			p.unconfined = true
			return p.Log
		}
		return &judgedLog{Log: p.Log, process: p, policy: prepared.Policy}
	})
	return child, err
}

// SandboxType is how the process is confined, in the spelling of its client.
func (p *Process) SandboxType() string {
	switch s := p.params.Sandbox; {
	case !confined(p.params), p.unconfined:
		return "none"
	case s.Draft != wire.DraftNone:
		return draftSandboxType
	}
	return confine.SandboxType
}

// draftSandboxType is confine.SandboxType for clients that send the draft form.
const draftSandboxType = "linux-seccomp"

// A Denial is the verdict on a process that has exited.
type Denial struct {
	Denied bool             // the sandbox is thought to be the reason for the failure
	Fact   *wire.DenialFact // what is known about it; nil: nothing
}

// Denial returns the verdict on a process that has exited.
func (p *Process) Denial() Denial { return p.denial }

// A judgedLog reaches a verdict on a failure before anybody learns of it.
type judgedLog struct {
	*outlog.Log
	process *Process
	policy  *sandbox.Policy
}

// Exit implements proc.Sink.
func (l *judgedLog) Exit(code int) {
	if code != 0 {
		l.process.denial = l.judge(code)
	}
	l.policy = nil // rules can be many
	l.Log.Exit(code)
}

// judgeTries is how often the output is looked at again if some of it is forgotten
// meanwhile.
const judgeTries = 3

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
		l.process.session.log.Warn("cannot look at all output of a failed command", "process", l.process.ID, "err", err)
	}
	if d.Denied {
		d.Fact = l.explain(code)
	}
	return d
}

// explain says what is known about a denial; nil: nothing.
func (l *judgedLog) explain(code int) *wire.DenialFact {
	var recent denial.Recent
	if err := l.Tail(denial.RecentBytes, denial.WindowEntries, func(e outlog.Entry) { recent.Add(e.Stream, e.Data) }); err != nil {
		return nil
	}
	return denial.Explain(l.policy, l.policy.Cwd, code, &recent).Wire()
}
