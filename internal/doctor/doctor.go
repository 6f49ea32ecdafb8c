// Package doctor proves that the sandbox works on this machine. It runs real
// commands that try to get out, in a directory made for that, and reports the
// results.
//
// A check passes only if it has seen the refusal itself. No attempt does harm
// if it is not refused.
//
// Where a change belongs: checks.go has the checks and their advice,
// fixture.go the files and processes that they attack, run.go runs a command
// in the sandbox, userns_*.go tries user namespaces.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/bwrap"
)

// A Status is the status of a check.
type Status string

// The values of Status. Only Failed is a problem.
const (
	Passed  Status = "ok"
	Failed  Status = "failed"
	Noted   Status = "note"    // it works, but in a way that is worth knowing
	Skipped Status = "skipped" // not tried, or does not apply to this machine
)

// A Result is the result of a check.
type Result struct {
	Name   string `json:"name"`
	Tries  string `json:"tries"` // how it was tried
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do, if it failed
}

// Config configures an examination.
type Config struct {
	Support confine.Support
	Other   *confine.Support // that of the backend that is not used; nil: it was not tried
	Runner  Runner           // runs commands in the sandbox
	Procs   *proc.Supervisor // runs commands outside, to be attacked
	Self    string           // the program whose helpers are the probes

	// Env is added to the environment of each command.
	Env []string

	// StateDir is the directory that no command may read.
	StateDir string
}

// checkTime is how long one check may take. The usual is a few milliseconds.
const checkTime = 10 * time.Second

// Examine runs all checks, one after the other. The error is about the
// examination, not about its results.
func Examine(ctx context.Context, cfg Config) ([]Result, error) {
	f, err := newFixture(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare the checks: %w", err)
	}
	results := host(ctx, cfg, f)
	for _, c := range checks {
		results = append(results, c.examine(ctx, f, cfg.Support.Problem == nil))
	}
	return results, f.close()
}

// Healthy reports whether nothing has failed.
func Healthy(results []Result) bool {
	for _, r := range results {
		if r.Status == Failed {
			return false
		}
	}
	return true
}

// A check makes one attempt.
type check struct {
	name  string
	tries string
	fix   string
	// run returns what it has observed, or an error if that is not as it
	// should be.
	run func(ctx context.Context, f *fixture) (detail string, err error)
}

// errNotHere is returned by a check that does not apply to this machine.
var errNotHere = errors.New("does not apply to this machine")

func (c check) examine(ctx context.Context, f *fixture, possible bool) Result {
	r := Result{Name: c.name, Tries: c.tries, Status: Skipped, Detail: "there is no sandbox to try it in"}
	if !possible {
		return r
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("no answer within %v", checkTime))
	defer cancel()
	detail, err := c.run(ctx, f)
	switch {
	case errors.Is(err, errNotHere):
		r.Detail = err.Error()
	case err != nil:
		r.Status, r.Detail, r.Fix = Failed, err.Error(), c.fix
	default:
		r.Status, r.Detail = Passed, detail
	}
	return r
}

// host examines the parts that sandboxes are built with.
func host(ctx context.Context, cfg Config, f *fixture) []Result {
	v := cfg.Support
	tool, trust := bubblewrap(cfg)
	build := Result{Name: "a sandbox can be built", Tries: "run a command in one", Status: Passed, Detail: buildDetail(v)}
	namespaces := Result{Name: "user namespaces", Tries: "start a command in one", Status: Passed, Detail: "available"}
	if err := tryUserNamespace(ctx, cfg.Self, cfg.Env); err != nil {
		namespaces.Status, namespaces.Detail, namespaces.Fix = Failed, err.Error(), v.Advice
		if v.Problem == nil {
			namespaces.Status, namespaces.Detail, namespaces.Fix = Noted, "not available, and not needed: "+err.Error(), ""
		}
	}
	switch {
	case v.Problem == nil:
	case tool.Status == Failed, trust.Status == Failed:
		build.Status, build.Detail = Skipped, notTried
	default:
		build.Status, build.Detail, build.Fix = Failed, reason(v.Problem), v.Advice
	}
	if namespaces.Status == Failed && build.Status == Skipped {
		namespaces.Fix = "" // the advice is about bubblewrap
	}
	return []Result{native(cfg), tool, trust, namespaces, build, procfs(v), kills(ctx, f), limits(cfg)}
}

const notTried = "not tried: see above"

// native says whether tether itself can build sandboxes here.
func native(cfg Config) Result {
	r := Result{Name: "native sandbox", Tries: "build one without bubblewrap", Status: Passed, Detail: "works, and is used"}
	switch v := cfg.Other; {
	case cfg.Support.Native && cfg.Support.Problem != nil:
		r.Status, r.Detail = Noted, "does not work here: "+reason(cfg.Support.Problem)
	case cfg.Support.Native:
	case v == nil:
		r.Status, r.Detail = Skipped, "not tried"
	case v.Problem != nil:
		r.Status, r.Detail = Noted, "does not work here: "+reason(v.Problem)
	default:
		r.Detail = "works, but bubblewrap was asked for"
	}
	return r
}

// bubblewrap says whether bubblewrap is there, and whether it could be replaced. If native sandboxes are used, it need not be.
func bubblewrap(cfg Config) (tool, trust Result) {
	tool = Result{Name: "bubblewrap", Tries: "find it in the system's directories and ask for its version", Status: Passed}
	trust = Result{Name: "bubblewrap is trusted", Tries: "look which users could replace it", Status: Passed, Detail: "only root or this user can replace it"}
	v, fail := cfg.Support, Failed
	if v.Native {
		if cfg.Other == nil {
			tool.Status, tool.Detail, trust.Status, trust.Detail = Skipped, "not tried", Skipped, notTried
			return tool, trust
		}
		v, fail = *cfg.Other, Noted
	}
	tool.Detail = v.Bubblewrap.Path + ", " + v.Bubblewrap.Version
	failed := func(r *Result) {
		r.Status, r.Detail = fail, reason(v.Problem)
		if fail == Failed {
			r.Fix = v.Advice
		} else {
			r.Detail += "; it is not needed"
		}
	}
	switch {
	case v.Problem == nil:
	case errors.Is(v.Problem, bwrap.ErrUnsafe):
		tool.Detail = v.Bubblewrap.Path
		failed(&trust)
	case v.Bubblewrap.Version == "":
		failed(&tool)
		trust.Status, trust.Detail = Skipped, notTried
	}
	return tool, trust
}

// reason returns the text of a problem without the prefix that clients get.
func reason(err error) string {
	if e, ok := errors.AsType[*sandbox.UnenforceableError](err); ok {
		return e.Reason
	}
	return err.Error()
}

func buildDetail(v confine.Support) string {
	way := map[proc.Mounts]string{
		proc.SharedMounts:  "by bubblewrap alone",
		proc.PrivateMounts: "from a private copy of the mounts",
		proc.PrivateAsUser: "from a private copy of the mounts, in a user namespace",
	}[v.Mounts]
	if v.Native {
		way = "by tether itself"
	}
	if v.NoUser {
		way += ", without a user namespace inside"
	}
	return way
}

func procfs(v confine.Support) Result {
	r := Result{Name: "own procfs", Tries: "mount one in a sandbox", Status: Passed, Detail: "commands see only their own processes"}
	switch {
	case v.Problem != nil:
		r.Status, r.Detail = Skipped, notTried
	case v.NoProc:
		r.Status, r.Detail = Noted, "cannot be mounted here: commands see the processes of this machine, read-only"
	}
	return r
}

// killTexts say what each kind of kill reaches, for commands without a sandbox.
var killTexts = map[proc.KillKind]string{
	proc.KillByKernel: "the kernel kills all that a command started (cgroup.kill). Only a process that has moved itself to another control group can stay behind: one of root without a sandbox, or of the server's user where this group is delegated",
	proc.KillMembers:  "each command has a control group, whose members are killed one by one: processes that fork faster than that can stay behind (cgroup.kill needs Linux 5.14)",
	proc.KillFound: "no control group to write to: the processes that a command without a sandbox starts are found by their parents, process session and pipes. " +
		"One that has left all three can stay behind, and so can one of another user",
	proc.KillGroup: "only the process group of a command is killed: a process that has left it can stay behind",
}

// kills kills a command and looks what is left of it.
func kills(ctx context.Context, f *fixture) Result {
	r := Result{Name: "kills", Tries: "kill a command with its children, and look what is left", Status: Passed}
	p, err := f.config.Procs.Start(ctx, proc.Spec{Argv: []string{"sh", "-c", "sleep 1000 & sleep 1000 & wait"}, Dir: "/", Env: f.env()}, new(proc.Capture))
	if err != nil {
		r.Status, r.Detail = Noted, fmt.Sprintf("not known: %v", err)
		return r
	}
	kind := p.KillKind()
	p.Kill()
	r.Detail = killTexts[kind]
	switch left := p.Survivors(); {
	case len(left) > 0:
		r.Status, r.Detail = Failed, fmt.Sprintf("process %d (%s) is left: %s", left[0].PID, left[0].Name, left[0].Reason())
	case kind != proc.KillByKernel:
		r.Status = Noted
	}
	return r
}

// limits says which limits of commands this machine can enforce. A server that runs in a group of its own, as a service does, may
// have more.
func limits(cfg Config) Result {
	r := Result{Name: "limits", Tries: "find a way to enforce each limit of a command", Status: Passed}
	support, err := cfg.Procs.LimitSupport()
	if err != nil {
		r.Status, r.Detail = Noted, err.Error()
		return r
	}
	r.Detail = support.Text()
	for _, l := range []proc.Limit{proc.LimitMemory, proc.LimitCPUs, proc.LimitProcesses} {
		if support.Missing[l] != nil {
			r.Status = Noted
		}
	}
	if r.Status == Noted {
		r.Fix = "Run the server in a control group that is delegated to it, such as a service with `Delegate=yes`, or `systemd-run --user --scope -p Delegate=yes tether serve`. See docs/limits.md."
	}
	return r
}
