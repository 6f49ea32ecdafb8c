package unifiedexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// write is a command that fails in a read-only sandbox.
const write = "echo data > f"

func (r *rig) wrote(name string) bool {
	_, err := os.Stat(filepath.Join(r.workspace, name))
	return err == nil
}

func always(d Decision) func(Question) Decision { return func(Question) Decision { return d } }

// Scenario UE15.
func TestPolicyNeverAsksNothing(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	for name, p := range map[string]Policy{"never": {}, "on request": {Mode: OnRequest}, "granular without": {Mode: Granular}} {
		r := newRig(t, sandboxed(ReadOnly(), p))
		r.answer = always(Approved)
		got := r.sh(write)
		if got.ExitCode == nil || *got.ExitCode == 0 || !strings.Contains(got.Output, "Read-only file system") {
			t.Errorf("%s:\n%s", name, got.Text())
		}
		if len(r.questions()) > 0 || r.wrote("f") || len(r.executor.starts()) != 1 {
			t.Errorf("%s: %d questions, %d starts", name, len(r.questions()), len(r.executor.starts()))
		}
	}
}

// Scenarios UE16 and U04.
func TestApprovedRetryRunsWithoutSandbox(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	r := newRig(t, sandboxed(ReadOnly(), granular))
	r.answer = always(Approved)
	cmd := write + " && echo $CODEX_SANDBOX_NETWORK_DISABLED"
	wantEnd(t, r.exec(ExecArgs{Cmd: cmd, Login: ptr(false), CallID: "c7"}), 0, "\n")
	if !r.wrote("f") {
		t.Error("nothing was written")
	}
	asked := r.questions()
	if len(asked) != 1 || asked[0].Reason != "command failed; retry without sandbox?" || !asked[0].Retry || asked[0].CallID != "c7" ||
		asked[0].Script != cmd || asked[0].Cwd != r.workspace || !strings.Contains(asked[0].Output, "Read-only") {
		t.Errorf("asked %+v", asked)
	}
	starts := r.executor.starts()
	if len(starts) != 2 || starts[0].Sandbox == nil || starts[1].Sandbox != nil || starts[0].ID == starts[1].ID ||
		strings.Split(starts[0].ID, "-")[0] != strings.Split(starts[1].ID, "-")[0] || !slices.Equal(starts[0].Argv, starts[1].Argv) {
		t.Fatalf("started %+v", starts)
	}
	if starts[0].Env[noNetworkVariable] != "1" {
		t.Error("the sandboxed attempt was not told that it has no network")
	}
	if v, found := starts[1].Env[noNetworkVariable]; found || !slices.Contains(starts[1].EnvPolicy.Exclude, noNetworkVariable) {
		t.Errorf("the second attempt has %s=%s", noNetworkVariable, v)
	}
}

// failing is an executor whose confined commands without network fail with this output and exit.
func failing(text string, exit client.Exit) *fake {
	return &fake{sandboxType: "linuxSeccomp", script: func(_ int, p *fakeProcess) {
		if restrictsNetwork(p.cmd.Sandbox) {
			p.prints(text)
			p.exits(exit)
		} else {
			p.prints("fetched\n")
			p.exits(client.Exit{})
		}
		p.closes()
	}}
}

// A command that needs the network is run again in its sandbox with the network, if the user
// approves that, also where files are hidden.
func TestRetryWithNetwork(t *testing.T) {
	network, path := wire.DeniedNetwork, wire.PathURIOn("linux", "/x")
	hides := ReadOnly()
	hides.Permissions.FileSystem.Entries = append(hides.Permissions.FileSystem.Entries, wire.SandboxEntry{
		Path: wire.SandboxPath{Type: wire.SandboxPathSpecial, Special: wire.SpecialPath{Kind: wire.SpecialTmpdir}}, Access: wire.AccessDeny,
	})
	const unresolved = "curl: (6) Could not resolve host: x.invalid\n"
	for _, row := range []struct {
		name    string
		sandbox *wire.Sandbox
		text    string
		exit    client.Exit
		asks    bool // for the network
	}{
		{"by the words", WorkspaceWrite(), unresolved, client.Exit{Code: 6}, true},
		{"by the fact", WorkspaceWrite(), "failed\n", client.Exit{Code: 1, SandboxDenied: true, Denial: &wire.DenialFact{Syscall: &network}}, true},
		{"files are hidden", hides, unresolved, client.Exit{Code: 6}, true},
		{"another fact", WorkspaceWrite(), unresolved, client.Exit{Code: 6, SandboxDenied: true, Denial: &wire.DenialFact{Path: &path}}, false},
		{"success", WorkspaceWrite(), unresolved, client.Exit{}, false},
		{"other words", WorkspaceWrite(), "connection refused\n", client.Exit{Code: 7}, false},
		{"old words", WorkspaceWrite(), unresolved + strings.Repeat("x", networkWindow), client.Exit{Code: 6}, false},
	} {
		e := failing(row.text, row.exit)
		r := newRigOn(t, e, sandboxed(row.sandbox, granular))
		r.answer = func(q Question) Decision {
			if q.Network {
				return Approved
			}
			return Declined
		}
		got := r.sh("fetch")
		if !row.asks {
			if len(e.all()) != 1 || got.Network || len(r.questions()) > 0 && r.questions()[0].Network {
				t.Errorf("%s: %d starts, asked %+v", row.name, len(e.all()), r.questions())
			}
			continue
		}
		wantEnd(t, got, 0, "fetched\n")
		if q := r.questions(); len(q) != 1 || !q[0].Retry || q[0].Rule != nil || q[0].Output != row.text || q[0].Reason != reasonNetwork {
			t.Errorf("%s: asked %+v", row.name, q)
		}
		second := e.all()[1].cmd
		if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "run again from its beginning, with the network") ||
			second.Sandbox == nil || len(second.Sandbox.Permissions.FileSystem.Entries) != len(row.sandbox.Permissions.FileSystem.Entries) || second.Env[noNetworkVariable] != "" {
			t.Errorf("%s: %q, %+v", row.name, got.Notes, second)
		}
	}
}

// The hosts of an environment are for commands that run in its sandbox without further rights.
func TestEnvironmentNetwork(t *testing.T) {
	if _, err := New(Config{Environments: []Environment{{ID: "e", Executor: &fake{}, Network: &client.Network{}}}}); err == nil {
		t.Error("hosts without a sandbox were accepted")
	}
	e := &fake{sandboxType: "linuxSeccomp", script: func(_ int, p *fakeProcess) { p.exits(client.Exit{}); p.closes() }}
	open := WorkspaceWrite()
	open.Permissions.Network, open.Permissions.FileSystem = wire.NetworkEnabled, wire.FileSystemPolicy{Type: wire.FileSystemUnrestricted}
	r := newRigOn(t, e, func(c *Config) {
		sandboxed(open, granular)(c)
		c.Environments[0].Network, c.AdditionalPermissions = &client.Network{Allow: []string{"a.example"}}, true
	})
	r.answer = always(Approved)
	for i, row := range []struct {
		args    ExecArgs
		network bool // the hosts
		open    bool // the sandbox has the network
	}{
		{ExecArgs{Cmd: "x"}, true, false},
		{ExecArgs{Cmd: "x", AdditionalPermissions: &AdditionalPermissions{FileSystem: &FilePermissions{Write: []string{"/w"}}}}, true, false},
		{ExecArgs{Cmd: "x", AdditionalPermissions: &AdditionalPermissions{Network: &NetworkPermissions{Enabled: true}}}, false, true},
		{ExecArgs{Cmd: "x", SandboxPermissions: RequireEscalated}, false, true},
	} {
		r.exec(row.args)
		cmd := e.all()[i].cmd
		if (cmd.Network != nil) != row.network || restrictsNetwork(cmd.Sandbox) == row.open || cmd.Env[noNetworkVariable] != "" {
			t.Errorf("%+v: network %v, sandbox %+v", row.args, cmd.Network, cmd.Sandbox)
		}
	}
	if n := len(r.questions()); n != 3 {
		t.Errorf("%d questions", n)
	}
	if open.Permissions.Network != wire.NetworkEnabled {
		t.Error("the sandbox of the environment was changed")
	}
}

// An approval of the network for the session does not allow a run without sandbox.
func TestNetworkApprovedForSession(t *testing.T) {
	e := failing("getaddrinfo EAI_AGAIN x.invalid\n", client.Exit{Code: 1})
	r := newRigOn(t, e, sandboxed(WorkspaceWrite(), granular))
	r.answer = always(ApprovedForSession)
	for range 2 {
		wantEnd(t, r.sh("npm install"), 0, "fetched\n")
	}
	if len(r.questions()) != 1 || len(e.all()) != 3 || restrictsNetwork(e.all()[2].cmd.Sandbox) || e.all()[2].cmd.Sandbox == nil {
		t.Fatalf("%d questions, %d starts", len(r.questions()), len(e.all()))
	}
	e.script = func(_ int, p *fakeProcess) { p.exits(client.Exit{Code: 1, SandboxDenied: true}); p.closes() }
	r.answer = always(Declined)
	if got := r.sh("npm install"); !got.Denied || got.Network || !got.Declined || len(r.questions()) != 2 || r.questions()[1].Network {
		t.Errorf("%s\nasked %+v", got.Text(), r.questions())
	}
}

// If the user is not asked, the result says that the network was missing.
func TestNetworkFailureIsReported(t *testing.T) {
	for _, p := range []Policy{{}, {Mode: OnRequest}, granular} {
		e := failing("fatal: unable to access 'https://x.invalid/': Could not resolve host: x.invalid\n", client.Exit{Code: 128})
		r := newRigOn(t, e, sandboxed(WorkspaceWrite(), p)) // its user declines
		got := r.sh("git pull")
		if !got.Denied || !got.Network || got.Declined != p.asksRetry() || len(e.all()) != 1 || *got.ExitCode != 128 {
			t.Errorf("%+v: %+v", p, got)
		}
		if want := "rejected by user: the command was not run again with the network"; got.Declined && got.Notes[0] != want {
			t.Errorf("notes %q", got.Notes)
		}
	}
}

// If the connection is lost while the user is asked, the retry still runs.
// Scenario UE16.
func TestApprovalThroughACut(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	r := newRigAt(t, cable.URL(), sandboxed(ReadOnly(), granular))
	var mending sync.WaitGroup
	r.answer = func(Question) Decision {
		cable.Cut()
		mending.Go(func() {
			time.Sleep(200 * time.Millisecond) // the length of the outage
			cable.Mend()
		})
		return Approved
	}
	wantEnd(t, r.sh(write+" && echo wrote"), 0, "wrote\n")
	mending.Wait()
	if cable.Links() < 2 || !r.wrote("f") {
		t.Errorf("%d connections", cable.Links())
	}
}

// The intent that the executor gets is portable: it names the workspace, not mounts.
func TestSandboxIntent(t *testing.T) {
	e := Environment{Sandbox: WorkspaceWrite()}
	s := e.intent("linux", "/home/dev/proj", nil)
	if s.Cwd.String() != "file:///home/dev/proj" || len(s.WorkspaceRoots) != 1 || s.WorkspaceRoots[0] != *s.Cwd || s.WindowsSandboxLevel != wire.WindowsDisabled {
		t.Errorf("%+v", s)
	}
	if e.Sandbox.Cwd != nil {
		t.Error("the sandbox of the environment was changed")
	}
	if s := e.intent("windows", `C:\proj`, nil); s.Cwd.String() != "file:///C:/proj" {
		t.Errorf("on Windows: %v", s.Cwd)
	}
}

// Scenarios UE17 and U02.
func TestDeclinedAndCancelledRetry(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	r := newRig(t, sandboxed(ReadOnly(), granular))
	got := r.sh("echo before; " + write)
	if got.ExitCode == nil || *got.ExitCode == 0 || !strings.Contains(got.Output, "before\n") || len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], "rejected by user") {
		t.Errorf("declined:\n%s", got.Text())
	}
	r.answer = always(Cancelled)
	if got, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: write}); !errors.Is(err, ErrInterrupted) {
		t.Errorf("cancelled: %v, %v", got, err)
	}
	_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: write, SandboxPermissions: RequireEscalated})
	if !errors.Is(err, ErrInterrupted) {
		t.Errorf("escalation cancelled: %v", err)
	}
	r.answer = always(Declined)
	_, err = r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: write, SandboxPermissions: RequireEscalated})
	wantError(t, err, ErrRejected, "exec_command failed: rejected by user")
	if r.wrote("f") {
		t.Error("something was written")
	}
}

// Scenarios UE18 and U03.
func TestApprovedForSession(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	r := newRig(t, sandboxed(ReadOnly(), granular))
	r.answer = always(ApprovedForSession)
	wantEnd(t, r.sh(write), 0, "")
	wantEnd(t, r.sh(write), 0, "")
	if n := len(r.questions()); n != 1 {
		t.Errorf("%d questions", n)
	}
	if starts := r.executor.starts(); len(starts) != 3 || starts[2].Sandbox != nil {
		t.Errorf("%d starts, the last with sandbox %v", len(starts), starts[len(starts)-1].Sandbox)
	}
	r.sh(write + "2") // another command
	if n := len(r.questions()); n != 2 {
		t.Errorf("%d questions", n)
	}
}

// An approval of a dangerous command does not allow to run it without sandbox.
func TestRememberedBeforeTheRunStaysSandboxed(t *testing.T) {
	e := &fake{sandboxType: "linuxSeccomp", script: func(_ int, p *fakeProcess) { p.exits(client.Exit{}); p.closes() }}
	r := newRigOn(t, e, sandboxed(ReadOnly(), Policy{Mode: OnRequest}))
	r.answer = always(ApprovedForSession)
	r.sh("rm -rf x")
	r.sh("rm -rf x")
	if n := len(r.questions()); n != 1 {
		t.Errorf("%d questions", n)
	}
	for _, p := range e.all() {
		if p.cmd.Sandbox == nil {
			t.Error("a command ran without sandbox although that was not approved")
		}
	}
}

func TestApprovedRule(t *testing.T) {
	e := &fake{sandboxType: "linuxSeccomp", script: func(_ int, p *fakeProcess) { p.exits(client.Exit{}); p.closes() }}
	r := newRigOn(t, e, sandboxed(ReadOnly(), Policy{Mode: OnRequest}))
	r.answer = always(ApprovedRule)
	r.exec(ExecArgs{Cmd: "npm install left-pad", SandboxPermissions: RequireEscalated, PrefixRule: []string{"npm", "install"}})
	if q := r.questions(); len(q) != 1 || !slices.Equal(q[0].Rule, []string{"npm", "install"}) {
		t.Fatalf("asked %+v", q)
	}
	for cmd, open := range map[string]bool{"npm install": true, "npm install a && npm install b": true, "npm run": false, "npm install > f": false, "npm install; ls": false} {
		n := len(e.all())
		r.sh(cmd)
		if got := e.all()[n].cmd.Sandbox == nil; got != open {
			t.Errorf("%q runs without sandbox: %t", cmd, got)
		}
	}
	if n := len(r.questions()); n != 1 {
		t.Errorf("%d questions", n)
	}
}

// A rule holds for all commands with the same beginning, in any directory. It does not hold for
// another manager, nor if the policy hides files. A command cannot propose a rule for other
// commands.
func TestScopeOfARule(t *testing.T) {
	run := func(r *rig, e *fake, args ExecArgs) (open bool) {
		t.Helper()
		n := len(e.all())
		r.exec(args)
		return e.all()[n].cmd.Sandbox == nil
	}
	first := ExecArgs{Cmd: "npm install a", SandboxPermissions: RequireEscalated, PrefixRule: []string{"npm", "install"}}
	later := ExecArgs{Cmd: "npm install b", Workdir: "/", TTY: true}
	e := ending()
	r := newRigOn(t, e, sandboxed(ReadOnly(), Policy{Mode: OnRequest}))
	r.answer = always(ApprovedRule)
	if !run(r, e, first) || !run(r, e, later) {
		t.Error("a command with a rule did not run without sandbox")
	}
	other := ending()
	if run(newRigOn(t, other, sandboxed(ReadOnly(), Policy{Mode: OnRequest})), other, later) {
		t.Error("the rule holds for another manager")
	}
	// The model asks for a rule that does not fit the command.
	run(r, e, ExecArgs{Cmd: "ls", SandboxPermissions: RequireEscalated, PrefixRule: []string{"curl"}})
	if q := r.questions(); !slices.Equal(q[len(q)-1].Rule, []string{"ls"}) {
		t.Errorf("the user is asked about %q", q[len(q)-1].Rule)
	}
	if run(r, e, ExecArgs{Cmd: "curl x"}) {
		t.Error("the rule of another command was remembered")
	}

	secret := ReadOnly()
	uri := wire.PathURIOn("linux", "/secret")
	secret.Permissions.FileSystem.Entries = append(secret.Permissions.FileSystem.Entries,
		wire.SandboxEntry{Path: wire.SandboxPath{Type: wire.SandboxPathURI, Path: uri}, Access: wire.AccessDeny})
	hidden := ending()
	h := newRigOn(t, hidden, sandboxed(secret, Policy{Mode: OnRequest}))
	h.answer = always(ApprovedRule)
	if run(h, hidden, first) || run(h, hidden, later) {
		t.Error("a rule made hidden files visible")
	}
}

// Scenarios UE19 and U01.
func TestLateDenialAsks(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	r := newRig(t, sandboxed(ReadOnly(), granular))
	r.answer = always(Approved)
	wantEnd(t, r.sh("sleep 0.3; "+write), 0, "")
	if len(r.questions()) != 1 || !r.wrote("f") {
		t.Errorf("%d questions", len(r.questions()))
	}
}

// If a poll finds the end of a denied command, the user is asked as well.
// Scenarios UE19 and U01.
func TestDenialAtAPollAsks(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	r := newRig(t, sandboxed(ReadOnly(), granular))
	r.answer = always(Approved)
	id := r.wantShown(r.exec(ExecArgs{Cmd: "echo up; read x; " + write, Login: ptr(false), TTY: true, YieldTimeMs: ptr[int64](1000)}), "up\r\n")
	got := r.stdin(id, "\n", 5000) // ends the first attempt; the second reads again
	if r.wantShown(got, "up\r\n") != id || len(r.questions()) != 1 {
		t.Fatalf("after the denial:\n%s", got.Text())
	}
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "run again") {
		t.Errorf("notes %q", got.Notes)
	}
	if got := r.stdin(id, "\n", atEnd); got.ExitCode == nil || *got.ExitCode != 0 || !r.wrote("f") {
		t.Errorf("the second attempt:\n%s", got.Text())
	}
	_, err := r.WriteStdin(tethertest.Within(t), StdinArgs{SessionID: id})
	if !errors.Is(err, ErrUnknownSession) {
		t.Errorf("after the end: %v", err)
	}
}

// A command that was interrupted does not count as denied by the sandbox.
func TestInterruptedIsNotDenied(t *testing.T) {
	e := &fake{sandboxType: "linuxSeccomp"}
	r := newRigOn(t, e, sandboxed(ReadOnly(), granular))
	id := wantRunning(t, r.exec(ExecArgs{Cmd: "x", YieldTimeMs: ptr[int64](1)}), "")
	p := e.all()[0]
	p.prints("permission denied")
	go func() { p.exits(client.Exit{Code: 130, SandboxDenied: true}); p.closes() }()
	wantEnd(t, r.stdin(id, "\x03", 5000), 130, "permission denied")
	if len(r.questions()) > 0 {
		t.Error("the user was asked")
	}
}

// Scenario UE20.
func TestEscalation(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	r := newRig(t, sandboxed(ReadOnly(), Policy{Mode: OnRequest}))
	r.answer = always(Approved)
	wantEnd(t, r.exec(ExecArgs{Cmd: write, Login: ptr(false), SandboxPermissions: RequireEscalated, Justification: "May I write?"}), 0, "")
	if q := r.questions(); len(q) != 1 || q[0].Reason != "May I write?" || q[0].Retry {
		t.Errorf("asked %+v", q)
	}
	if starts := r.executor.starts(); len(starts) != 1 || starts[0].Sandbox != nil {
		t.Errorf("started %+v", starts)
	}
}

// Scenario UE21.
func TestDeniedReadsKeepTheSandbox(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	policy := ReadOnly()
	r := newRig(t, sandboxed(policy, granular))
	secret := filepath.Join(r.workspace, "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	uri := wire.PathURIOn("linux", secret)
	policy.Permissions.FileSystem.Entries = append(policy.Permissions.FileSystem.Entries,
		wire.SandboxEntry{Path: wire.SandboxPath{Type: wire.SandboxPathURI, Path: uri}, Access: wire.AccessDeny})
	r.answer = always(ApprovedForSession)
	for _, args := range []ExecArgs{{Cmd: "cat secret; " + write}, {Cmd: "cat secret", SandboxPermissions: RequireEscalated}, {Cmd: "cat secret", SandboxPermissions: RequireEscalated}} {
		if got := r.exec(args); strings.Contains(got.Output, "s3cret") || *got.ExitCode == 0 {
			t.Errorf("%+v:\n%s", args, got.Text())
		}
	}
	for _, cmd := range r.executor.starts() {
		if cmd.Sandbox == nil {
			t.Errorf("%q ran without sandbox", cmd.Argv)
		}
	}
}

// The executor is asked for its verdict if its notification has none.
// Scenario UE24.
func TestVerdictIsReadWhenMissing(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	exits := line.On(cable.FromServer, cable.Method("process/exited").Always(), cable.Amend(func(members map[string]any) {
		delete(members["params"].(map[string]any), "sandboxDenied")
	}))
	reads := line.On(cable.FromClient, cable.Method("process/read").Always())
	r := newRigAt(t, line.URL(), sandboxed(ReadOnly(), granular))
	r.answer = always(Approved)
	wantEnd(t, r.sh(write), 0, "")
	if len(r.questions()) != 1 || !r.wrote("f") {
		t.Errorf("%d questions", len(r.questions()))
	}
	for _, rule := range []*cable.Rule{exits, reads} {
		if err := rule.Await(tethertest.Within(t), 2); err != nil {
			t.Error(err)
		}
	}
	if exits.Count() != 2 || reads.Count() != 2 {
		t.Errorf("%d exits, %d reads", exits.Count(), reads.Count())
	}
}

// If the executor reports that it has applied no sandbox, a failure is not a denial, and a command
// that needs a sandbox is ended.
func TestExecutorWithoutSandbox(t *testing.T) {
	e := &fake{sandboxType: noSandbox}
	r := newRigOn(t, e, sandboxed(ReadOnly(), granular))
	_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: write})
	if !errors.Is(err, ErrCreateProcess) {
		t.Errorf("%v", err)
	}
	r.Close()
	if n := e.all()[0].terminations(); n != 1 {
		t.Errorf("terminated %d times", n)
	}
}

func TestDangerousUnderNever(t *testing.T) {
	r := newRigOn(t, &fake{}, nil)
	_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "rm -rf ./x; echo ok"})
	wantError(t, err, ErrRejected, "exec_command failed: `/bin/sh -lc 'rm -rf ./x; echo ok'` rejected: rm -f style commands are not permitted. Use a safer approach")
}

// Each attempt has its own events, also a denied one.
// Scenario U08.
func TestEventsOfEachAttempt(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	r := newRig(t, sandboxed(ReadOnly(), granular))
	r.answer = always(Approved)
	r.sh("echo out; " + write)
	r.Close()
	var got []string
	for _, e := range r.observed() {
		switch e.Kind {
		case Began:
			got = append(got, fmt.Sprintf("began %d sandboxed %t", e.Attempt, e.Sandboxed))
		case Ended:
			got = append(got, fmt.Sprintf("ended %d %s denied %t %t", e.Attempt, e.Status, e.Denied, strings.Contains(e.Output, "out\n")))
		}
	}
	want := []string{"began 1 sandboxed true", "ended 1 failed denied true true", "began 2 sandboxed false", "ended 2 completed denied false true"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("events %q", got)
	}
}

func TestPolicyNeedsAnApprover(t *testing.T) {
	if _, err := New(Config{Policy: granular}); err == nil {
		t.Error("accepted")
	}
	r := newRigOn(t, &fake{}, func(c *Config) {
		c.Policy = Policy{Mode: Untrusted}
		c.Approver = ApproverFunc(func(context.Context, Question) (Decision, error) { return Approved, errors.New("no terminal") })
	})
	_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "x"})
	wantError(t, err, ErrRejected, "exec_command failed: the user could not be asked: no terminal")
}
