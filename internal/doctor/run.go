package doctor

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox/denial"
	"github.com/tetherexec/tether/wire"
)

// A Command is one attempt.
type Command struct {
	Argv   []string
	Dir    string
	Env    []string
	Intent *wire.Sandbox

	Managed bool // it has a network of its own, without any connection

	// On a terminal, Keys are typed after Await was printed.
	TTY         bool
	Await, Keys string
}

func (c Command) spec() proc.Spec {
	return proc.Spec{Argv: c.Argv, Dir: c.Dir, Env: c.Env, TTY: c.TTY}
}

// An Outcome is the result of a command.
type Outcome struct {
	Code   int
	Output string // of both streams
	Denied bool   // the sandbox is probably the reason
}

// A Runner runs a command to its end. An error means that the command did not
// run.
type Runner interface {
	Run(ctx context.Context, c Command) (Outcome, error)
}

// Sandbox is the Runner that is examined.
type Sandbox struct {
	Confiner *confine.Confiner
	Procs    *proc.Supervisor
}

// Run implements Runner.
func (s Sandbox) Run(ctx context.Context, c Command) (Outcome, error) {
	p, err := s.Confiner.Prepare(ctx, confine.Request{Intent: c.Intent, Spec: c.spec(), EnforceManagedNetwork: c.Managed})
	if err != nil {
		return Outcome{}, err
	}
	return follow(ctx, c, func(sink proc.Sink) (*proc.Process, error) { return p.Start(ctx, s.Procs, sink) })
}

// follow runs a command to its end.
func follow(ctx context.Context, c Command, start func(proc.Sink) (*proc.Process, error)) (Outcome, error) {
	var judge denial.Judge
	seen := make(chan struct{})
	prompt := sync.OnceFunc(func() { close(seen) })
	capture := &proc.Capture{Limit: maxOutput, Each: func(s outlog.Stream, piece, kept []byte) error {
		judge.Add(s, piece)
		if c.Await != "" && bytes.Contains(kept, []byte(c.Await)) {
			prompt()
		}
		return nil
	}}
	p, err := start(capture)
	if err != nil {
		return Outcome{}, err
	}
	for {
		select {
		case <-seen:
			seen = nil
			p.Write([]byte(c.Keys), func(error) {}) // a command that has ended reads nothing
		case <-p.Done():
			output, code := capture.Result()
			return Outcome{Code: code, Output: strings.TrimSpace(string(output)), Denied: judge.Denied(code)}, nil
		case <-ctx.Done():
			p.Kill()
			return Outcome{}, context.Cause(ctx)
		}
	}
}

// maxOutput bounds the output of a command that is kept.
const maxOutput = 256 << 10
