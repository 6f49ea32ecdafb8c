package unifiedexec

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(tethertest.AtHome(m)) }

// A rig is a manager with an executor behind it.
type rig struct {
	*Manager
	t         *testing.T
	workspace string
	client    *client.Client // nil: there is none
	executor  *spy

	mu     sync.Mutex
	asked  []Question
	events []Event
	answer func(Question) Decision
}

// newRig starts a server and a manager with one environment there.
func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	return newRigAt(t, tethertest.StartServer(t, server.Config{}).URL, change)
}

func newRigAt(t *testing.T, url string, change func(*Config)) *rig {
	t.Helper()
	c, err := client.Dial(tethertest.Within(t), url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := newRigOn(t, Remote(c), change)
	r.client = c
	return r
}

func newRigOn(t *testing.T, e Executor, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, workspace: workspace(t), executor: &spy{Executor: e}, answer: func(Question) Decision { return Declined }}
	config := Config{
		Environments: []Environment{{ID: "remote", Executor: r.executor, Cwd: r.workspace}},
		Approver: ApproverFunc(func(_ context.Context, q Question) (Decision, error) {
			r.mu.Lock()
			r.asked = append(r.asked, q)
			r.mu.Unlock()
			return r.answer(q), nil
		}),
		Observe: func(e Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		},
	}
	if change != nil {
		change(&config)
	}
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	r.Manager = m
	t.Cleanup(func() { m.Close() })
	return r
}

// workspace makes a directory outside of /tmp, which is writable in some sandboxes.
func workspace(t *testing.T) string {
	dir, err := os.MkdirTemp("/var/tmp", "unifiedexec-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// exec runs a command that must give a result.
func (r *rig) exec(args ExecArgs) *Result {
	r.t.Helper()
	result, err := r.ExecCommand(tethertest.Within(r.t), args)
	if err != nil {
		r.t.Fatalf("exec_command %q: %v", args.Cmd, err)
	}
	return result
}

// sh runs a command until its end.
func (r *rig) sh(cmd string) *Result {
	r.t.Helper()
	return r.exec(ExecArgs{Cmd: cmd, Login: ptr(false), YieldTimeMs: ptr[int64](atEnd)})
}

// atEnd is a wait that ends with the process.
const atEnd = 30_000

// stdin writes to a session or polls it; that must give a result.
func (r *rig) stdin(session int, chars string, yieldMs int64) *Result {
	r.t.Helper()
	result, err := r.WriteStdin(tethertest.Within(r.t), StdinArgs{SessionID: session, Chars: chars, YieldTimeMs: &yieldMs})
	if err != nil {
		r.t.Fatalf("write_stdin %q: %v", chars, err)
	}
	return result
}

func (r *rig) questions() []Question {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Question(nil), r.asked...)
}

func (r *rig) observed() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.events...)
}

func wantEnd(t *testing.T, r *Result, code int, output string) {
	t.Helper()
	if r.ExitCode == nil || *r.ExitCode != code || r.Output != output || r.SessionID != 0 {
		t.Errorf("result:\n%s\nwant exit code %d and %q", r.Text(), code, output)
	}
}

func wantRunning(t *testing.T, r *Result, output string) int {
	t.Helper()
	if r.ExitCode != nil || r.SessionID < minSessionID || r.SessionID > maxSessionID || r.Output != output {
		t.Fatalf("result:\n%s\nwant a running session and %q", r.Text(), output)
	}
	return r.SessionID
}

// wantShown is wantRunning for a process that may need more time until it has printed all of the
// output. It polls.
func (r *rig) wantShown(got *Result, output string) int {
	r.t.Helper()
	for all := *got; len(all.Output) < len(output) && strings.HasPrefix(output, all.Output) && got.SessionID != 0; {
		got = r.stdin(got.SessionID, "", 1)
		more := *got
		more.Output = all.Output + got.Output
		all, got = more, &more
	}
	return wantRunning(r.t, got, output)
}

func wantError(t *testing.T, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || err.Error() != text {
		t.Errorf("error %v\n want %s (%v)", err, text, kind)
	}
}

func ptr[T any](v T) *T { return &v }

// A spy is an executor that records commands.
type spy struct {
	Executor
	mu         sync.Mutex
	started    []client.Command
	terminated int
}

func (s *spy) Start(ctx context.Context, cmd client.Command) (Process, error) {
	s.mu.Lock()
	s.started = append(s.started, cmd)
	s.mu.Unlock()
	p, err := s.Executor.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	spied := &spiedProcess{p, s}
	if far, ok := p.(distant); ok {
		return struct {
			*spiedProcess
			distant
		}{spied, far}, nil
	}
	return spied, nil
}

type spiedProcess struct {
	Process
	spy *spy
}

func (p *spiedProcess) Terminate(ctx context.Context) error {
	p.spy.mu.Lock()
	p.spy.terminated++
	p.spy.mu.Unlock()
	return p.Process.Terminate(ctx)
}

func (s *spy) starts() []client.Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]client.Command(nil), s.started...)
}

func (s *spy) terminations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.terminated
}

// sandboxed sets the sandbox of the environment and the policy.
func sandboxed(s *wire.Sandbox, p Policy) func(*Config) {
	return func(c *Config) {
		c.Environments[0].Sandbox = s
		c.Policy = p
	}
}

var granular = Policy{Mode: Granular, SandboxApproval: true, Rules: true}
