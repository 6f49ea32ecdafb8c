package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/sandboxhost"
)

func TestSandboxExplainAsJSON(t *testing.T) {
	t.Parallel()
	r := newSandboxEnvOf(t, released(t))
	link := filepath.Join(r.work, "link")
	if err := os.Symlink("../outside", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../outside/nowhere", filepath.Join(r.work, "dangling")); err != nil {
		t.Fatal(err)
	}
	got := r.tether("", "sandbox", "explain", "--json", "--writable", "/opt", "new", "link/file", "dangling", ".git/config", r.state+"/tether", "/opt", "/etc/passwd", "/dev/null")
	var e sandboxhost.Explanation
	if err := json.Unmarshal([]byte(got.stdout), &e); err != nil || got.code != 0 {
		t.Fatalf("%v: %+v", err, got)
	}
	if e.Cwd != r.work || e.Network != "restricted" || !e.Backend.Usable || e.Plan.Shape != "namespaces" || len(e.Plan.Ops) == 0 {
		t.Errorf("%+v", e)
	}
	want := []sandboxhost.PathDecision{
		{Path: r.work + "/new", RealPath: r.work + "/new", Access: "write", RulePath: r.work, Effect: "host-writable"},
		{Path: link + "/file", RealPath: r.outside + "/file", Access: "read", RulePath: "/", Effect: "host-readable"},
		{Path: r.work + "/dangling", RealPath: r.outside + "/nowhere", Access: "read", RulePath: "/", Effect: "host-readable"},
		{Path: r.work + "/.git/config", RealPath: r.work + "/.git/config", Access: "read", RulePath: r.work + "/.git", Effect: "hidden"},
		{Path: r.state + "/tether", RealPath: r.state + "/tether", Exists: true, Access: "deny", RulePath: r.state + "/tether", Effect: "hidden"},
		{Path: "/opt", RealPath: "/opt", Exists: true, Access: "write", RulePath: "/opt", Effect: "host-writable"},
		{Path: "/etc/passwd", RealPath: "/etc/passwd", Exists: true, Access: "read", RulePath: "/", Effect: "host-readable"},
		{Path: "/dev/null", RealPath: "/dev/null", Exists: true, Effect: "private"},
	}
	for i, w := range want {
		if i >= len(e.Paths) {
			t.Fatalf("%d decisions", len(e.Paths))
		}
		d := e.Paths[i]
		if d.Rule == "" {
			t.Errorf("no rule: %+v", d)
		}
		d.Rule = ""
		if w.Access == "" { // whatever the rules say about devices
			d.Access, d.RulePath = "", ""
		}
		if d != w {
			t.Errorf("%+v\nwant %+v", d, w)
		}
	}
	if left, err := os.ReadDir(r.work); err != nil || len(left) != 2 {
		t.Errorf("something was made: %v, %v", left, err)
	}
}

func TestSandboxExplainAsText(t *testing.T) {
	t.Parallel()
	r := newSandboxEnvOf(t, released(t))
	if err := os.Symlink("../outside", filepath.Join(r.work, "link")); err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		args string
		want []string
	}{
		{"--profile read-only link", []string{"network   off\n", "\nreadable  everything\n", "writable  nothing\n",
			"  " + r.work + "/link -> " + r.outside + "\n    read only: entry :root, read, for /\n", "\nplan\n  shape namespaces\n", "  bind-ro /  # entry :root, read\n"}},
		{"--network", []string{"network   on\n", "writable  /tmp\n", "          " + r.work + "\n            except " + r.work + "/.agents: read only (entry :project_roots/.agents, read)\n"}},
		{"--profile full missing", []string{"backend   none needed", "readable  everything\nwritable  everything\n", "/missing (does not exist)\n    read and write: unrestricted"}},
	} {
		got := r.tether("", append([]string{"sandbox", "explain"}, strings.Fields(try.args)...)...)
		for _, text := range try.want {
			if !strings.Contains(got.stdout, text) || got.code != 0 || got.stderr != "" {
				t.Errorf("%s: no %q in %+v", try.args, text, got)
			}
		}
	}
}

// Without bubblewrap, a sandbox of bubblewrap has a plan to show, but no command runs. A native sandbox works.
func TestSandboxWithoutBubblewrap(t *testing.T) {
	t.Parallel()
	r := newSandboxEnvOf(t, released(t))
	run := func(args ...string) (string, int) {
		argv := append(append(hidden(t), r.self), args...)
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = r.work, r.command().Env
		text, _ := cmd.CombinedOutput()
		return string(text), cmd.ProcessState.ExitCode()
	}
	text, code := run("sandbox", "explain", "--sandbox-backend", "bwrap", "/etc/passwd")
	for _, part := range []string{"MISSING, the command would be refused: bubblewrap is not installed", "apt-get install bubblewrap", "read only: entry :root, read", "bind-ro /"} {
		if !strings.Contains(text, part) || code != 0 {
			t.Errorf("no %q, code %d: %s", part, code, text)
		}
	}
	text, code = run("sandbox", "run", "--sandbox-backend", "bwrap", "touch", "ran")
	if code != exitRefused || !strings.Contains(text, "bubblewrap is not installed") || !strings.Contains(text, "apt-get install") {
		t.Errorf("code %d: %s", code, text)
	}
	if _, err := os.Stat(r.work + "/ran"); err == nil {
		t.Error("the command was run")
	}
	if text, code = run("sandbox", "explain", "/etc/passwd"); code != 0 || !strings.Contains(text, "backend   native") {
		t.Errorf("code %d: %s", code, text)
	}
	if text, code = run("sandbox", "run", "touch", "ran"); code != 0 {
		t.Errorf("code %d: %s", code, text)
	}
}
