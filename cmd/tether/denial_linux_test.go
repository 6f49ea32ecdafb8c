package main

import (
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/sandboxhost"
)

// `tether run` and `tether sandbox run` explain a denial with the same line.
func TestDenialIsExplained(t *testing.T) {
	t.Parallel()
	r := newSandboxEnvOf(t, released(t))
	const hint = "tether: the sandbox may be the reason for this failure"
	write := []string{"sh", "-c", "echo x > " + r.outside + "/new"}
	for name, command := range map[string]func(profile string, flags ...string) []string{
		"sandbox run": func(profile string, flags ...string) []string {
			return append([]string{"sandbox", "run", "--profile", profile}, flags...)
		},
		"run": func(profile string, flags ...string) []string {
			return append([]string{"run", "--sandbox", profile}, flags...)
		},
	} {
		const explain, workspace = "--explain-denial", sandboxhost.ProfileWorkspaceWrite
		for _, try := range []struct {
			flags, argv []string
			want        string // the last line of standard error
		}{
			{command(workspace, explain), write, hint + ": writing " + r.outside + "/new is not allowed (entry :root, read)"},
			{command(sandboxhost.ProfileFull, explain), []string{"sh", "-c", "echo 'permission denied' >&2; exit 1"}, "permission denied"},
			{command(workspace, explain), []string{"sh", "-c", "echo 'Operation not permitted' >&2; exit 1"}, hint},
			{command(workspace, explain), []string{"sh", "-c", "echo 'connect: Operation not permitted' >&2; exit 1"}, hint + ": the network is off (--network allows it)"},
			{command(workspace, explain, "--allow-host", "example.com"), []string{"sh", "-c", "echo 'connect: Operation not permitted' >&2; exit 1"},
				hint + ": only the hosts of --allow-host can be reached, through a proxy"},
			{command(workspace, explain), []string{"sh", "-c", "echo 'Operation not permitted' >&2"}, "Operation not permitted"},
			{command(workspace, explain), []string{"sh", "-c", "echo boom >&2; exit 1"}, "boom"},
			{command(workspace, explain), []string{r.self, "be-child", "probe", "int80", "getpid"}, hint + ": a forbidden system call ended it"},
			{command(workspace), []string{"sh", "-c", "echo 'Operation not permitted' >&2; exit 1"}, "Operation not permitted"},
		} {
			got := r.tether("", append(try.flags, try.argv...)...)
			lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
			if lines[len(lines)-1] != try.want {
				t.Errorf("%s: %q: %+v", name, append(try.flags, try.argv...), got)
			}
		}
	}
}

// On a terminal, `tether run` explains a denial without being asked.
func TestDenialIsExplainedOnATerminal(t *testing.T) {
	t.Parallel()
	r := newSandboxEnv(t)
	for _, flags := range [][]string{nil, {"--tty"}} {
		s := newTestTerminal(t)
		cmd := r.command(append(append([]string{"run", "--sandbox", sandboxhost.ProfileReadOnly}, flags...), "sh", "-c", "echo x > forbidden")...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = s.slave, s.slave, s.slave
		cmd.Run()
		s.until("may be the reason for this failure: writing " + r.work + "/forbidden is not allowed (entry :root, read)\r\n")
		s.leave()
	}
}

// --explain-denial is refused if it could never print a line.
func TestExplainDenialNeedsASandbox(t *testing.T) {
	t.Parallel()
	r := newSandboxEnv(t)
	for _, try := range []struct{ flags, want string }{
		{"--explain-denial", "--explain-denial needs --sandbox"},
		{"--explain-denial --sandbox read-only --detach", "--explain-denial cannot be used with --detach"},
	} {
		got := r.tether("", append(append([]string{"run"}, strings.Fields(try.flags)...), "true")...)
		if got.code != exitRefused || !strings.Contains(got.stderr, try.want) {
			t.Errorf("%s: %+v", try.flags, got)
		}
	}
}
