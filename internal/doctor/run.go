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

// A Command is something to try.
type Command struct {
	Argv   []string
	Dir    string
	Env    []string
	Intent *wire.Sandbox

	Managed bool // its network is its own, and leads nowhere

	// On a terminal, Keys are typed once Await was printed.
	TTY         bool
	Await, Keys string
}

func (c Command) spec() proc.Spec {
	return proc.Spec{Argv: c.Argv, Dir: c.Dir, Env: c.Env, TTY: c.TTY}
}

// An Outcome is how a command ended.
type Outcome struct {
	Code   int
	Output string // of both streams
	Denied bool   // the sandbox is thought to be the reason
}

// A Runner runs a command to its end. Its error means that there was none.
type Runner interface {
	Run(ctx context.Context, c Command) (Outcome, error)
}

// Sandbox is the Runner that is to be proved.
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
	sink := &collector{await: []byte(c.Await), seen: make(chan struct{})}
	p, err := start(sink)
	if err != nil {
		return Outcome{}, err
	}
	seen := sink.seen
	for {
		select {
		case <-seen:
			seen = nil
			p.Write([]byte(c.Keys), func(error) {}) // who has ended reads nothing
		case <-p.Done():
			return sink.outcome(), nil
		case <-ctx.Done():
			p.Kill()
			return Outcome{}, context.Cause(ctx)
		}
	}
}

// maxOutput bounds what is kept of the output of a command.
const maxOutput = 256 << 10

// A collector keeps output, and says when a text has come.
type collector struct {
	await []byte        // empty: nothing
	seen  chan struct{} // closed when it came

	mu     sync.Mutex // two streams
	output bytes.Buffer
	judge  denial.Judge
	came   bool
	code   int
}

// Append implements proc.Sink.
func (c *collector) Append(s outlog.Stream, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.judge.Add(s, data)
	c.output.Write(data[:min(len(data), max(0, maxOutput-c.output.Len()))])
	if !c.came && len(c.await) > 0 && bytes.Contains(c.output.Bytes(), c.await) {
		c.came = true
		close(c.seen)
	}
	return nil
}

// Exit implements proc.Sink.
func (c *collector) Exit(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code = code
}

// Cut implements proc.Sink.
func (c *collector) Cut() {}

// Close implements proc.Sink.
func (c *collector) Close() {}

func (c *collector) outcome() Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Outcome{Code: c.code, Output: strings.TrimSpace(c.output.String()), Denied: c.judge.Denied(c.code)}
}
