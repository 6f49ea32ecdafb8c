//go:build interop

package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// The real client with `tether mcp` as an MCP server. The tests drive it as editors do, so that the questions of the server reach a
// user: `codex exec` has no user and cancels them.

// mcpSessionID finds the session in what the client shows to its model, which is the
// structured content of a result where there is some.
var mcpSessionID = regexp.MustCompile(`"session_id":(\d+)`)

// An mcpThread is a thread of the real client that has the tools of `tether mcp`.
type mcpThread struct {
	*appServer
	accept    bool     // the user's answer to the server's questions
	questions []string // of the server
}

// newMCPThread starts the client with tether's server on an executor.
func newMCPThread(t *testing.T, accept bool, script func(turn int, outputs []string) modelItem) *mcpThread {
	t.Helper()
	tethertest.NeedBubblewrap(t)
	client, bin := program(t, ref), program(t, tether)
	executor := startServer(t, tether)
	t.Cleanup(executor.stop)
	m := &mcpThread{&appServer{t: t, model: newModel(t, script)}, accept, nil}
	home := codexHome(t, m.model.URL)
	m.workspace = filepath.Join(home, "ws")
	file := filepath.Join(home, "codex", "config.toml")
	text, err := os.ReadFile(file)
	if err == nil {
		config := fmt.Sprintf("[mcp_servers.tools]\ncommand = %q\nargs = [\"mcp\", \"--url\", %q, \"--cwd\", %q]\ndefault_tools_approval_mode = \"approve\"\n", bin, executor.url, m.workspace)
		err = os.WriteFile(file, append(text, config...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.launch(client, home, "") // no executor of its own: a stdio server needs the local machine
	m.open("danger-full-access", granularApproval)
	return m
}

// play plays one turn to its end, and answers the questions in it.
func (m *mcpThread) play() {
	m.t.Helper()
	m.send(map[string]any{"id": 1000, "method": "turn/start", "params": map[string]any{"threadId": m.thread, "input": []map[string]any{{"type": "text", "text": "do it"}}}})
	for {
		message := m.hear()
		switch {
		case message.Method == "turn/completed":
			return
		case message.Method == "" || len(message.ID) == 0:
		case message.Method == "mcpServer/elicitation/request":
			var q struct{ Message string }
			json.Unmarshal(message.Params, &q)
			m.questions = append(m.questions, q.Message)
			answer := map[string]any{"action": "decline", "content": nil}
			if m.accept {
				answer = map[string]any{"action": "accept", "content": map[string]any{"scope": "once"}}
			}
			m.send(map[string]any{"id": message.ID, "result": answer})
		default:
			m.t.Errorf("the client asks %s %s", message.Method, message.Params)
			m.send(map[string]any{"id": message.ID, "result": map[string]any{"decision": "decline"}})
		}
	}
}

// A command, a prompt, and a write that the sandbox denies. The user is asked about the write. After a yes it happens, after a no
// the result has the first output.
func TestCodexWithTetherMCP(t *testing.T) {
	t.Parallel()
	for _, accept := range []bool{true, false} {
		t.Run(fmt.Sprintf("accept=%v", accept), func(t *testing.T) {
			t.Parallel()
			outside, err := os.MkdirTemp(suite.dir, "outside-")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(outside, "file")
			calls := []func(outputs []string) modelItem{
				func([]string) modelItem {
					return mcpCall("exec_command", map[string]any{"cmd": "echo text > in; cat in; pwd", "login": false})
				},
				func([]string) modelItem {
					return mcpCall("exec_command", map[string]any{"cmd": `printf 'name? '; read n; echo "hi $n"`, "tty": true, "yield_time_ms": 3000, "login": false})
				},
				func(outputs []string) modelItem {
					session := 0
					if id := mcpSessionID.FindStringSubmatch(outputs[len(outputs)-1]); id != nil {
						session, _ = strconv.Atoi(id[1])
					}
					return mcpCall("write_stdin", map[string]any{"session_id": session, "chars": "Ada\n", "yield_time_ms": 5000})
				},
				func([]string) modelItem {
					return mcpCall("exec_command", map[string]any{"cmd": "echo tried; echo text > " + file, "login": false})
				},
			}
			m := newMCPThread(t, accept, func(turn int, outputs []string) modelItem {
				if turn > len(calls) {
					return say("done")
				}
				item := calls[turn-1](outputs)
				item["call_id"] = fmt.Sprintf("call%d", turn)
				return item
			})
			m.play()
			got := m.outputs()
			if len(got) != len(calls) {
				t.Fatalf("%d outputs: %q", len(got), got)
			}
			last := []string{`"exit_code":0`, "tried"}
			if !accept {
				last = []string{`"exit_code":1`, "tried", "rejected by user"}
			}
			for i, want := range [][]string{{`"exit_code":0`, "text", m.workspace}, {"name? ", `"session_id":`}, {"hi Ada", `"exit_code":0`}, last} {
				for _, part := range want {
					if !strings.Contains(got[i], part) {
						t.Errorf("output %d: want %q in %s", i+1, part, got[i])
					}
				}
			}
			if len(m.questions) != 1 || !strings.Contains(m.questions[0], file) {
				t.Errorf("questions: %q", m.questions)
			}
			if text, err := os.ReadFile(file); (err == nil) != accept || accept && string(text) != "text\n" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// `codex exec` has no user, so a question is not answered with yes and the call ends.
func TestCodexExecWithTetherMCP(t *testing.T) {
	t.Parallel()
	tethertest.NeedBubblewrap(t)
	m := newMCPTurn(t, tether)
	outside, err := os.MkdirTemp(suite.dir, "outside-")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(outside, "file")
	config := fmt.Sprintf("[mcp_servers.tools]\ncommand = %q\nargs = [\"mcp\", \"--url\", %q, \"--cwd\", %q]\n", program(t, tether), m.cable.URL(), suite.work)
	m.run(config, []modelItem{
		mcpCall("exec_command", map[string]any{"cmd": "echo hello", "login": false}),
		mcpCall("exec_command", map[string]any{"cmd": "echo tried; echo text > " + file, "login": false}),
	}, nil)
	got := m.want(2)
	if !strings.Contains(got[0], "Output:\nhello\n") {
		t.Errorf("%q", got[0])
	}
	if !strings.Contains(got[1], "Process exited with code 1") || !strings.Contains(got[1], "the command was not run again without the sandbox") {
		t.Errorf("%q", got[1])
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file was written")
	}
}
