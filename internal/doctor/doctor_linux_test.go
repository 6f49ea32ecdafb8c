package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/bwrap"
)

func TestMain(m *testing.M) {
	if err := proc.ResetInherited(); err != nil { // a job in the background ignores SIGINT
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// A machine is this machine as a Config to examine.
type machine struct {
	Config
	confiner *confine.Confiner
}

func newMachine(t *testing.T) machine {
	t.Helper()
	state := t.TempDir()
	own := filepath.Join(state, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	procs := proc.New(proc.Config{})
	t.Cleanup(procs.Close)
	confiner := confine.New(confine.Config{Procs: procs, Shared: state, Own: own, Private: func() []string { return []string{state} }})
	t.Cleanup(func() { confiner.Close() })
	return machine{Config{
		Runner: Sandbox{confiner, procs}, Procs: procs, Self: self, StateDir: state,
		Env: []string{"GORACE=atexit_sleep_ms=0"}, // probes need not wait for late reports
	}, confiner}
}

// needSandbox gets the Support of this machine, which must have no problem.
func (p *machine) needSandbox(t *testing.T) {
	t.Helper()
	var err error
	if p.Support, err = p.confiner.Support(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Support.Problem != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(p.Support.Problem)
		}
		t.Skipf("no sandbox here: %v. %s", p.Support.Problem, p.Support.Advice)
	}
}

func examine(t *testing.T, cfg Config) []Result {
	t.Helper()
	results, err := Examine(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func find(t *testing.T, results []Result, name string) Result {
	t.Helper()
	i := slices.IndexFunc(results, func(r Result) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no result is called %q", name)
	}
	return results[i]
}

func TestAllChecksPassHere(t *testing.T) {
	p := newMachine(t)
	p.needSandbox(t)
	results := examine(t, p.Config)
	for _, r := range results {
		if r.Status == Failed {
			t.Errorf("%s: %s", r.Name, r.Detail)
		}
	}
	if !Healthy(results) {
		t.Error("not healthy")
	}
}

// An unconfined runs everything without a sandbox.
type unconfined struct{ procs *proc.Supervisor }

func (u unconfined) Run(ctx context.Context, c Command) (Outcome, error) {
	return follow(ctx, c, func(sink proc.Sink) (*proc.Process, error) { return u.procs.Start(ctx, c.spec(), sink) })
}

func TestEveryCheckFailsWithoutSandbox(t *testing.T) {
	p := newMachine(t)
	p.Runner = unconfined{p.Procs}
	// A refusal by this machine itself cannot be distinguished from a refusal
	// by a sandbox.
	excused := map[string]bool{"kernel settings": os.Geteuid() != 0}
	ask := func(args ...string) bool {
		spec := proc.Spec{Argv: append([]string{p.Self, "be-child", "probe"}, args...), Dir: "/", Env: p.Env}
		o, err := follow(t.Context(), Command{}, func(sink proc.Sink) (*proc.Process, error) { return p.Procs.Start(t.Context(), spec, sink) })
		return err == nil && o.Code == 0
	}
	excused["asynchronous calls"] = !ask("io-uring-setup")
	excused["tracing"] = !ask("ptrace-child")
	excused["foreign system calls"] = !ask("int80", "getpid")
	namespace := exec.Command("true")
	namespace.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	excused["nested namespaces"] = namespace.Run() != nil
	excused["control groups"] = ask("nested-cgroup") // a user may be unable to write to any
	results := examine(t, p.Config)
	if Healthy(results) {
		t.Error("healthy without a sandbox")
	}
	for _, c := range checks {
		r := find(t, results, c.name)
		if excused[c.name] {
			t.Logf("%s: refused by this machine itself", c.name)
			continue
		}
		if r.Status != Failed || r.Detail == "" || r.Fix == "" {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// A brokenRunner starts nothing.
type brokenRunner struct{}

func (brokenRunner) Run(context.Context, Command) (Outcome, error) {
	return Outcome{}, errors.New("nothing works")
}

// A silentRunner reports that everything has failed, but runs nothing.
type silentRunner struct{}

func (silentRunner) Run(context.Context, Command) (Outcome, error) { return Outcome{Code: 1}, nil }

// A command that was not run must not count as one that was refused.
func TestEveryCheckFailsIfNothingRuns(t *testing.T) {
	p := newMachine(t)
	for _, r := range []Runner{brokenRunner{}, silentRunner{}} {
		t.Run(fmt.Sprintf("%T", r), func(t *testing.T) {
			p.Runner = r
			results := examine(t, p.Config)
			for _, c := range checks {
				if r := find(t, results, c.name); r.Status != Failed && r.Status != Skipped {
					t.Errorf("%s: %+v", c.name, r)
				}
			}
		})
	}
}

func TestProblemsOfTheHost(t *testing.T) {
	p := newMachine(t)
	const path, version, advice = "/usr/bin/bwrap", "bubblewrap 1", "do this"
	for _, try := range []struct {
		name    string
		support confine.Support
		red     string
	}{
		{"missing", confine.Support{Problem: bwrap.ErrMissing}, "bubblewrap"},
		{"old", confine.Support{Bubblewrap: bwrap.Tool{Path: path}, Problem: fmt.Errorf("%w: no --perms", bwrap.ErrOld)}, "bubblewrap"},
		{"unsafe", confine.Support{Bubblewrap: bwrap.Tool{Path: path}, Problem: fmt.Errorf("%w: 0777", bwrap.ErrUnsafe)}, "bubblewrap is trusted"},
		{"useless", confine.Support{Bubblewrap: bwrap.Tool{Path: path, Version: version}, Problem: sandbox.Unenforceable("no")}, "a sandbox can be built"},
	} {
		t.Run(try.name, func(t *testing.T) {
			cfg := p.Config
			cfg.Support = try.support
			cfg.Support.Advice = advice
			results := examine(t, cfg)
			r := find(t, results, try.red)
			if r.Status != Failed || r.Fix != advice || strings.Contains(r.Detail, "failed to prepare") {
				t.Errorf("%+v", r)
			}
			for _, other := range results {
				if other.Name != try.red && other.Status == Failed && other.Name != "user namespaces" {
					t.Errorf("also failed: %+v", other)
				}
			}
			if r := find(t, results, checks[0].name); r.Status != Skipped {
				t.Errorf("a check ran without a sandbox: %+v", r)
			}
		})
	}
}

// A difference that does no harm is noted, and is not a failure.
func TestNotes(t *testing.T) {
	p := newMachine(t)
	p.needSandbox(t)
	p.Support.NoProc = true // only the note depends on it
	results := examine(t, p.Config)
	if r := find(t, results, "own procfs"); r.Status != Noted || !Healthy(results) {
		t.Errorf("%+v", r)
	}
}

func TestExamineLeavesNoFiles(t *testing.T) {
	p := newMachine(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	p.Runner = unconfined{p.Procs} // leaves the most files
	examine(t, p.Config)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The doctor tells what a kill reaches on this machine, and has tried it.
func TestKills(t *testing.T) {
	for name, groups := range map[string]bool{"control groups": true, "process table": false} {
		t.Run(name, func(t *testing.T) {
			procs := proc.New(proc.Config{NoCgroups: !groups})
			t.Cleanup(procs.Close)
			r := kills(t.Context(), &fixture{config: Config{Procs: procs}})
			switch {
			case !groups && (r.Status != Noted || !strings.Contains(r.Detail, "can stay behind")):
				t.Errorf("%+v", r)
			case groups && (r.Status == Failed || r.Status == Passed && !strings.Contains(r.Detail, "cgroup.kill")):
				t.Errorf("%+v", r)
			}
			if left := procs.Processes(); len(left) > 0 {
				t.Errorf("%d commands are left", len(left))
			}
		})
	}
}
