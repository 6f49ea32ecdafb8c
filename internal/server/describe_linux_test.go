package server_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

func describe(t *testing.T, c *tethertest.Client, session string) (d wire.DescribeResult, raw string) {
	t.Helper()
	m := c.Call(wire.MethodProcessDescribe, map[string]any{"sessionId": session, "processId": "p"})
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	if err := wire.Decode(m.Result, &d); err != nil {
		t.Fatalf("%s: %v", m.Raw, err)
	}
	return d, string(m.Raw)
}

// Another client reads what was asked for and what is in force, and no value of the environment, also after the exit.
func TestDescriptionOfAConfinedProcess(t *testing.T) {
	t.Parallel()
	tethertest.NeedBubblewrap(t)
	owner, other, public := twoSessions(t, server.Config{})
	work := t.TempDir()
	if real, err := filepath.EvalSymlinks(work); err == nil {
		work = real
	}
	root := wire.PathToURI(work)
	hidden := filepath.Join(work, "hidden")
	owner.Start(tethertest.Shell("p", `echo ready; read x; touch /etc/new; exit 1`, map[string]any{
		"cwd": root, "env": map[string]string{"PATH": "/usr/bin:/bin", "PASSWORD": "hunter2"}, "pipeStdin": true, "arg0": "build",
		"metadata": map[string]any{"threadId": "thread", "toolCallId": nil}, "limits": map[string]any{"openFiles": 128},
		"sandbox": json.RawMessage(fmt.Sprintf(`{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[
			{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":%q},"access":"write"},
			{"path":{"type":"path","path":%q},"access":"deny"}]}},"windowsSandboxLevel":"disabled","cwd":%q,"workspaceRoots":[%q]}`,
			root, wire.PathToURI(hidden), root, root)),
	}))
	owner.AwaitEvent("p")
	check := func(d wire.DescribeResult) {
		t.Helper()
		if d.Process.ProcessID != "p" || d.Process.SessionID != public || d.Process.Argv[2] != `echo ready; read x; touch /etc/new; exit 1` || !d.PipeStdin ||
			d.Arg0 == nil || *d.Arg0 != "build" || d.Metadata == nil || *d.Metadata.ThreadID != "thread" || d.Limits == nil || d.Limits.OpenFiles.Limit != 128 {
			t.Errorf("%+v", d)
		}
		s := d.Sandbox
		if s.Type != "linuxSeccomp" || s.FullRead || s.FullWrite || s.Partial || d.Network.Type != wire.NetworkOff {
			t.Errorf("%+v, %+v", s, d.Network)
		}
		at := slices.IndexFunc(s.Writable, func(p wire.SandboxPlace) bool { return p.Path == work })
		excepted := func(p wire.SandboxPlace) bool {
			return slices.ContainsFunc(p.Except, func(r wire.SandboxRule) bool { return r.Path == hidden && r.Access == "deny" && r.Rule != "" })
		}
		if at < 0 || !excepted(s.Writable[at]) || len(s.Readable) != 1 || s.Readable[0].Path != "/" || !excepted(s.Readable[0]) {
			t.Errorf("%+v", s)
		}
		text := strings.Join(d.Text, "\n")
		for _, want := range []string{"network   off\n", "sandbox   linuxSeccomp\n", "readable  /\n", "writable  " + work + "\n", "  except " + hidden + ": no access (entry "} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	d, raw := describe(t, other, public)
	check(d)
	if d.Process.State != wire.StateRunning || d.SandboxDenied || d.TetherDenial != nil {
		t.Errorf("while it runs: %s", raw)
	}
	if strings.Contains(raw, "hunter2") || strings.Contains(raw, "PASSWORD") {
		t.Errorf("it has the environment: %s", raw)
	}
	owner.Write("p", "1", "\n")
	owner.Finish("p", 1)
	d, raw = describe(t, other, public)
	check(d)
	if d.Process.State != wire.StateClosed || *d.Process.ExitCode != 1 || d.Process.TetherUsage == nil || !d.SandboxDenied || d.TetherDenial == nil || d.TetherDenial.PathText() != "/etc/new" {
		t.Errorf("after its end: %s", raw)
	}
}

// A description counts the decisions about hosts, and names the rules.
func TestDescriptionOfTheNetwork(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	public := c.Handshake("").Tether.PublicID
	script := `for i in 1 2 3; do ` + get("refused.example") + `; done; ` + get("h[1-300].example")
	domains := map[string]string{"*.good.example": "allow", "bad.example": "deny", "none.example": "none"}
	c.Start(tethertest.Shell("p", script, proxied(domains, nil)))
	c.Finish("p", 0)
	d, raw := describe(t, c, public)
	if n := d.Network; n.Type != wire.NetworkByProxy || n.Mode == nil || *n.Mode != "full" || n.Asks || !slices.Equal(n.Allow, []string{"*.good.example"}) || !slices.Equal(n.Deny, []string{"bad.example"}) {
		t.Errorf("%+v", n)
	}
	if len(d.Decisions) != wire.MaxDescribedHosts || d.MoreDecisions != 300+1-wire.MaxDescribedHosts {
		t.Fatalf("%d decisions and %d more", len(d.Decisions), d.MoreDecisions)
	}
	first := d.Decisions[0]
	if first.Host != "refused.example" || first.Port != 80 || first.Count != 3 || first.Decision != "deny" || first.Reason != "not_allowed" || first.FirstMs == 0 || first.LastMs < first.FirstMs {
		t.Errorf("%+v", first)
	}
	if d.Sandbox.Type != "none" || !d.Sandbox.FullWrite || !strings.Contains(raw, "none: the command has all rights of the server's user") {
		t.Errorf("%+v, %q", d.Sandbox, d.Text)
	}
}

// Long command lines and many patterns are cut.
func TestDescriptionIsBounded(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	public := c.Handshake("").Tether.PublicID
	domains := map[string]string{}
	for i := range 1000 {
		domains[fmt.Sprintf("h%d.example", i)] = []string{"allow", "deny"}[i%2]
	}
	argv := append([]string{"true"}, slices.Repeat([]string{strings.Repeat("x", 50_000)}, 20)...)
	c.Start(tethertest.Command("p", argv, proxied(domains, nil)))
	c.Finish("p", 0)
	d, raw := describe(t, c, public)
	if n := len(d.Network.Allow) + len(d.Network.Deny); n != wire.MaxDescribedRules || !d.Network.Partial {
		t.Errorf("%d patterns, %v", n, d.Network.Partial)
	}
	if len(raw) > 150_000 || !strings.HasSuffix(d.Process.Argv[len(d.Process.Argv)-1], "…") {
		t.Errorf("%d bytes, %d arguments", len(raw), len(d.Process.Argv))
	}
}
