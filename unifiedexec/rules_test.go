package unifiedexec

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// ending is an executor whose processes end at once, sandboxed ones with a denial.
func ending() *fake {
	return &fake{sandboxType: "linuxSeccomp", script: func(_ int, p *fakeProcess) {
		if p.cmd.Sandbox != nil {
			p.exits(client.Exit{Code: 1, SandboxDenied: true})
		} else {
			p.exits(client.Exit{})
		}
		p.closes()
	}}
}

// If the user has approved the first attempt, the second attempt needs no question, unless the
// policy is strict.
func TestApprovedBeforeIsNotAskedAgain(t *testing.T) {
	for _, strict := range []bool{false, true} {
		policy := granular
		policy.Strict = strict
		r := newRigOn(t, ending(), sandboxed(ReadOnly(), policy))
		r.answer = always(Approved)
		wantEnd(t, r.sh("rm -rf x"), 0, "")
		want := 1
		if strict {
			want = 2
		}
		if n := len(r.questions()); n != want {
			t.Errorf("strict %t: %d questions", strict, n)
		}
	}
}

func TestRules(t *testing.T) {
	e := ending()
	r := newRigOn(t, e, func(c *Config) {
		sandboxed(ReadOnly(), Policy{Mode: OnRequest})(c)
		c.Rules = func(parts [][]string, plain bool) (Verdict, string) {
			switch {
			case plain && parts[0][0] == "good":
				return RuleAllow, ""
			case parts[0][0] == "odd":
				return RulePrompt, "is it odd?"
			case parts[0][0] == "bad":
				return RuleForbidden, ""
			}
			return RuleNone, ""
		}
	})
	r.answer = always(Approved)
	wantEnd(t, r.sh("good"), 0, "") // without sandbox at once
	wantEnd(t, r.sh("good > f"), 1, "")
	wantEnd(t, r.sh("odd"), 1, "") // approved, but in the sandbox
	if q := r.questions(); len(q) != 1 || q[0].Reason != "is it odd?" {
		t.Errorf("asked %+v", q)
	}
	_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "bad", Login: ptr(false)})
	wantError(t, err, ErrRejected, "exec_command failed: `/bin/sh -c bad` rejected: blocked by policy")
	if n := len(e.all()); n != 3 {
		t.Errorf("%d starts", n)
	}
}

func TestAdditionalPermissions(t *testing.T) {
	args, err := ParseExecArgs([]byte(`{"cmd":"x","sandbox_permissions":"with_additional_permissions","justification":"to build",
		"additional_permissions":{"network":{"enabled":true},"file_system":{"write":["out","/opt"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	off := newRigOn(t, ending(), sandboxed(ReadOnly(), Policy{Mode: OnRequest}))
	_, err = off.ExecCommand(tethertest.Within(t), args)
	wantError(t, err, ErrArguments, "additional permissions are disabled; enable `features.exec_permission_approvals` before using `with_additional_permissions`")

	e := ending()
	r := newRigOn(t, e, func(c *Config) {
		sandboxed(ReadOnly(), Policy{Mode: OnRequest})(c)
		c.AdditionalPermissions = true
	})
	r.answer = always(Approved)
	r.exec(args)
	if q := r.questions(); len(q) != 1 || q[0].Reason != "to build" {
		t.Errorf("asked %+v", q)
	}
	got := e.all()[0].cmd.Sandbox
	var writable []string
	for _, entry := range got.Permissions.FileSystem.Entries {
		if entry.Access == wire.AccessWrite {
			writable = append(writable, strings.TrimPrefix(entry.Path.Path.String(), "file://"))
		}
	}
	if got.Permissions.Network != wire.NetworkEnabled || !slices.Equal(writable, []string{r.workspace + "/out", "/opt"}) {
		t.Errorf("sandbox %+v", got.Permissions)
	}
	if _, found := e.all()[0].cmd.Env[noNetworkVariable]; found {
		t.Error("a command with network has the variable for a sandbox without it")
	}
	want := &AdditionalPermissions{&NetworkPermissions{true}, &FilePermissions{Write: []string{r.workspace + "/out", "/opt"}}}
	if q := r.questions()[0]; q.Permissions != WithAdditional || !reflect.DeepEqual(q.Additional, want) || q.Rule != nil {
		t.Errorf("asked for %s %+v, rule %q", q.Permissions, q.Additional, q.Rule)
	}
}

// These texts are the same in the reference.
func TestAdditionalPermissionsErrors(t *testing.T) {
	e := ending()
	r := newRigOn(t, e, func(c *Config) {
		sandboxed(ReadOnly(), Policy{Mode: OnRequest})(c)
		c.AdditionalPermissions = true
	})
	const none = "`additional_permissions` must include at least one requested permission in `network` or `file_system`"
	for _, row := range []struct{ args, want string }{
		{`{"cmd":"x","sandbox_permissions":"with_additional_permissions"}`, "missing `additional_permissions`; provide at least one of `network` or `file_system` when using `with_additional_permissions`"},
		{`{"cmd":"x","sandbox_permissions":"with_additional_permissions","additional_permissions":{}}`, none},
		{`{"cmd":"x","sandbox_permissions":"with_additional_permissions","additional_permissions":{"network":{}}}`, none},
		{`{"cmd":"x","sandbox_permissions":"with_additional_permissions","additional_permissions":{"other":{}}}`, none},
		{`{"cmd":"x","sandbox_permissions":"require_escalated","additional_permissions":{"network":{"enabled":true}}}`, "`additional_permissions` requires `sandbox_permissions` set to `with_additional_permissions`"},
	} {
		args, err := ParseExecArgs([]byte(row.args))
		if err == nil {
			_, err = r.ExecCommand(tethertest.Within(t), args)
		}
		wantError(t, err, ErrArguments, row.want)
	}
	// additional_permissions imply with_additional_permissions.
	r.answer = always(Approved)
	r.exec(ExecArgs{Cmd: "x", AdditionalPermissions: &AdditionalPermissions{Network: &NetworkPermissions{true}}})
	if len(r.questions()) != 1 || e.all()[0].cmd.Sandbox.Permissions.Network != wire.NetworkEnabled {
		t.Errorf("%d questions", len(r.questions()))
	}
	never := newRigOn(t, ending(), sandboxed(ReadOnly(), Policy{}))
	_, err := never.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "x", AdditionalPermissions: &AdditionalPermissions{Network: &NetworkPermissions{true}}})
	wantError(t, err, ErrArguments, "approval policy is Never; reject command — you cannot ask for escalated permissions if the approval policy is Never")
}

// A sandbox that restricts only the network is not left without a question either.
func TestEscalationFromANetworkSandbox(t *testing.T) {
	policy := &wire.Sandbox{WindowsSandboxLevel: wire.WindowsDisabled, Permissions: wire.Permissions{
		Type: wire.PermissionsManaged, Network: wire.NetworkRestricted, FileSystem: wire.FileSystemPolicy{Type: wire.FileSystemUnrestricted}}}
	for _, args := range []ExecArgs{
		{Cmd: "x", SandboxPermissions: RequireEscalated},
		{Cmd: "x", AdditionalPermissions: &AdditionalPermissions{Network: &NetworkPermissions{true}}},
	} {
		e := ending()
		r := newRigOn(t, e, func(c *Config) {
			sandboxed(policy, Policy{Mode: OnRequest})(c)
			c.AdditionalPermissions = true
		})
		_, err := r.ExecCommand(tethertest.Within(t), args)
		wantError(t, err, ErrRejected, "exec_command failed: rejected by user")
		if len(r.questions()) != 1 || len(e.all()) != 0 {
			t.Errorf("%s: %d questions, %d starts", args.SandboxPermissions, len(r.questions()), len(e.all()))
		}
	}
}

// A proposed rule is the beginning of the command, and never allows everything.
func TestProposedRule(t *testing.T) {
	argv := func(script string) string { return "/bin/sh -c " + script }
	for _, row := range []struct{ cmd, asked, want string }{
		{"npm install left-pad", "npm install", "npm install"},
		{"npm install a && npm install b", "npm install", "npm install"},
		{"npm install a && ls", "npm install", ""},
		{"ls -l", "npm", "ls -l"},
		{"ls -l", "ls -l -a", "ls -l"},
		{"ls -l", "", "ls -l"},
		{"git status", "git", "git status"},
		{"git status", "git status", "git status"},
		{"python3.12 -c 1", "python3.12 -c", "python3.12 -c 1"},
		{"python3 -u", "", ""},
		{"sudo", "sudo", ""},
		{"ls > f", "ls", argv("ls > f")},
		{"ls > f", "/bin/sh -c", argv("ls > f")},
	} {
		parts, plain := parseScript(row.cmd)
		if !plain {
			parts = [][]string{{"/bin/sh", "-c", row.cmd}}
		}
		if got := strings.Join(proposeRule(strings.Fields(row.asked), parts, plain), " "); got != row.want {
			t.Errorf("%q with %q: %q, want %q", row.cmd, row.asked, got, row.want)
		}
	}
}

func TestEnvironments(t *testing.T) {
	near, far := ending(), ending()
	r := newRigOn(t, near, func(c *Config) {
		c.Environments = append(c.Environments, Environment{ID: "far", Executor: far, Cwd: `file:///C:/proj`})
		far.info = wire.EnvironmentInfo{PlatformOS: "windows", Shell: wire.ShellInfo{Name: "cmd", Path: `C:\cmd.exe`}}
	})
	r.exec(ExecArgs{Cmd: "x"})
	r.exec(ExecArgs{Cmd: "x", EnvironmentID: "far", Workdir: "sub"})
	if len(near.all()) != 1 || len(far.all()) != 1 {
		t.Fatal("a command ran in the wrong environment")
	}
	if cmd := far.all()[0].cmd; cmd.Dir != `C:\proj\sub` || !slices.Equal(cmd.Argv, []string{`C:\cmd.exe`, "/c", "x"}) {
		t.Errorf("on Windows: %q in %s", cmd.Argv, cmd.Dir)
	}
	if _, err := New(Config{Environments: []Environment{{ID: "a", Executor: near}, {ID: "a", Executor: far}}}); err == nil {
		t.Error("two environments with the same name were accepted")
	}
}
