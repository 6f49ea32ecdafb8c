//go:build interop

package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
)

// The real client with an MCP server on the executor. The client starts it there itself, or through `tether mcp-run`, which looks to
// the client like a server on its own machine.

// toolServer is a real MCP server for the executor.
var toolServer = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(suite.dir, "toolserver")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "./client/mcptransport/internal/toolserver")
	cmd.Dir = suite.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tool server: %w\n%s", err, out)
	}
	return bin, nil
})

// An mcpTurn is one turn of the real client with a server called "tools".
type mcpTurn struct {
	t      *testing.T
	server *server
	cable  *cable.Cable
	home   string
	events string // of the client, one JSON object per line
}

// newMCPTurn lays a cable to a new server.
func newMCPTurn(t *testing.T, who product) *mcpTurn {
	t.Helper()
	program(t, who)
	m := &mcpTurn{t: t, server: startServer(t, who)}
	t.Cleanup(func() { m.server.stop() })
	m.cable = layCable(t, m.server.url)
	return m
}

// placed is the configuration of a server that the client starts on the executor.
func (m *mcpTurn) placed() string {
	return fmt.Sprintf("[mcp_servers.tools]\ncommand = %q\ncwd = %q\nenvironment_id = \"remote\"\nenv = { LITERAL = \"yes\" }\n", m.tools(), suite.work)
}

// through is the configuration of a server that `tether mcp-run` starts there.
func (m *mcpTurn) through() string {
	return fmt.Sprintf("[mcp_servers.tools]\ncommand = %q\nargs = [\"mcp-run\", \"--url\", %q, \"--cwd\", %q, \"--env\", \"LITERAL=yes\", \"--\", %q]\n",
		program(m.t, tether), m.cable.URL(), suite.work, m.tools())
}

func (m *mcpTurn) tools() string {
	m.t.Helper()
	bin, err := toolServer()
	if err != nil {
		m.t.Fatal(err)
	}
	return bin
}

// run lets the client call these tools, one after the other. meanwhile, if not nil, runs
// beside it until its context ends with the client.
func (m *mcpTurn) run(config string, calls []modelItem, meanwhile func(ctx context.Context), variables ...string) {
	m.t.Helper()
	model := newModel(m.t, func(turn int, _ []string) modelItem {
		if turn <= len(calls) {
			calls[turn-1]["call_id"] = fmt.Sprintf("call%d", turn)
			return calls[turn-1]
		}
		return say("done")
	})
	m.home = codexHome(m.t, model.URL)
	file := filepath.Join(m.home, "codex", "config.toml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(text, config...), 0o600)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), codexTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(m.t, ref), "exec", "--json", "--skip-git-repo-check", "do it")
	cmd.Dir = filepath.Join(m.home, "ws")
	cmd.Env = append(variables, "PATH=/usr/local/bin:/usr/bin:/bin", "HOME="+filepath.Join(m.home, "user"),
		"CODEX_HOME="+filepath.Join(m.home, "codex"), "LANG=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var beside sync.WaitGroup
	if meanwhile != nil {
		beside.Go(func() { meanwhile(ctx) }) // ends with ctx
	}
	err = cmd.Run()
	cancel()
	beside.Wait()
	if m.events = out.String(); err != nil {
		m.t.Errorf("codex exec: %v\n%s\n%s", err, shorten(m.events), errs.String())
	}
}

// remote is the variable that makes the near end of the cable the client's executor.
func (m *mcpTurn) remote() string { return "CODEX_EXEC_SERVER_URL=" + m.cable.URL() }

// results are the texts and errors of the tool calls that the client has reported.
func (m *mcpTurn) results() (results []string) {
	for line := range strings.Lines(m.events) {
		var event struct {
			Type string
			Item struct {
				Type   string
				Result *struct{ Content []struct{ Text string } }
				Error  *struct{ Message string }
			}
		}
		if json.Unmarshal([]byte(line), &event) != nil || event.Type != "item.completed" || event.Item.Type != "mcp_tool_call" {
			continue
		}
		switch i := event.Item; {
		case i.Error != nil:
			results = append(results, "error: "+i.Error.Message)
		case i.Result != nil && len(i.Result.Content) == 1:
			results = append(results, i.Result.Content[0].Text)
		default:
			results = append(results, "neither a result nor an error")
		}
	}
	return results
}

// want returns the results, if there are as many.
func (m *mcpTurn) want(n int) []string {
	m.t.Helper()
	results := m.results()
	if len(results) != n {
		m.t.Fatalf("%d results %q, want %d:\n%s", len(results), results, n, m.events)
	}
	return results
}

func mcpCall(tool string, args map[string]any) modelItem {
	if args == nil {
		args = map[string]any{} // the client wants an object
	}
	item := functionCall(tool, 0, args)
	item["namespace"] = "mcp__tools"
	return item
}

// awaitBegun waits until the server works on a call that waits for a file.
func awaitBegun(ctx context.Context, file string) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if os.Remove(file+".begun") == nil {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

func (m *mcpTurn) waitFile() string { return filepath.Join(m.t.TempDir(), "go") }

func TestCodexMCPServerOnTheExecutor(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		m := newMCPTurn(t, who)
		starts := m.cable.On(cable.FromClient, cable.Method("process/start").Where(func(m *cable.Message) bool {
			return strings.HasPrefix(m.Process(), "mcp-stdio-")
		}).Always())
		m.run(m.placed(), []modelItem{mcpCall("getenv", map[string]any{"name": "LITERAL"}), mcpCall("echo", map[string]any{"text": "héllo\n"})}, nil, m.remote())
		if got := m.want(2); got[0] != `"yes" true` || got[1] != "héllo\n" {
			t.Errorf("%q", got)
		}
		if starts.Count() != 1 {
			t.Errorf("%d MCP servers were started on the executor", starts.Count())
		}
	})
}

// After a cut the same MCP server answers the real client. Scenario F62.
func TestCodexMCPCallSurvivesCut(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) { testMCPCut(t, who, (*mcpTurn).placed) })
}

// After a cut the same MCP server answers through `tether mcp-run`. Scenario F62.
func TestCodexMCPRunCallSurvivesCut(t *testing.T) {
	t.Parallel()
	testMCPCut(t, tether, (*mcpTurn).through)
}

func testMCPCut(t *testing.T, who product, config func(*mcpTurn) string) {
	m := newMCPTurn(t, who)
	file := m.waitFile()
	var variables []string
	text := config(m)
	if text == m.placed() {
		variables = append(variables, m.remote())
	}
	m.run(text, []modelItem{mcpCall("pid", nil), mcpCall("wait", map[string]any{"file": file}), mcpCall("pid", nil)}, func(ctx context.Context) {
		if awaitBegun(ctx, file) {
			m.cable.Cut()
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Error(err)
			}
			m.cable.Mend()
		}
	}, variables...)
	if got := m.want(3); got[0] != got[1] || got[1] != got[2] || strings.HasPrefix(got[0], "error") {
		t.Errorf("%q", got)
	}
	if n := m.cable.Links(); n < 2 {
		t.Errorf("%d connections: the cut interrupted no connection", n)
	}
}

// replace ends the executor in the middle of a call and puts another one in its place.
func (m *mcpTurn) replace(file string) func(context.Context) {
	return func(ctx context.Context) {
		if !awaitBegun(ctx, file) {
			return
		}
		m.cable.Cut()
		m.server.stop()
		m.server = startServer(m.t, tether)
		if err := m.cable.Aim(m.server.url); err != nil {
			m.t.Error(err)
		}
		m.cable.Mend()
	}
}

// After a lost session the real client does not start its MCP server again (F63). If this fails, the reference has been repaired.
// The client reports the call in flight as closed or as not sent: that depends on which of its tasks notices the loss first.
func TestCodexMCPLostSessionIsFinal(t *testing.T) {
	t.Parallel()
	m := newMCPTurn(t, tether)
	file := m.waitFile()
	m.run(m.placed(), []modelItem{mcpCall("wait", map[string]any{"file": file}), mcpCall("pid", nil)}, m.replace(file), m.remote())
	if got := m.want(2); !strings.HasPrefix(got[0], "error") || !strings.HasPrefix(got[1], "error") {
		t.Errorf("%q", got)
	}
}

// Through `tether mcp-run`, a lost session fails the call in flight, and the next call works (F63).
func TestCodexMCPRunRestartsAfterLostSession(t *testing.T) {
	t.Parallel()
	m := newMCPTurn(t, tether)
	file := m.waitFile()
	m.run(m.through(), []modelItem{mcpCall("pid", nil), mcpCall("wait", map[string]any{"file": file}), mcpCall("pid", nil)}, m.replace(file))
	got := m.want(3)
	if strings.HasPrefix(got[0], "error") || !strings.HasPrefix(got[1], "error") || strings.HasPrefix(got[2], "error") || got[0] == got[2] {
		t.Errorf("%q", got)
	}
}
