package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/unifiedexec"
)

// The text is that of unified exec, and the data says the same.
func TestCommand(t *testing.T) {
	r := newRig(t, nil, nil)
	got := r.sh("echo hello; exit 3")
	if !regexp.MustCompile(`^Chunk ID: [0-9a-f]{6}\nWall time: \d+\.\d{4} seconds\nProcess exited with code 3\nOriginal token count: 2\nOutput:\nhello\n$`).MatchString(got.text) {
		t.Errorf("text: %q", got.text)
	}
	if got.data["exit_code"] != 3.0 || got.data["output"] != "hello\n" || got.isErr {
		t.Errorf("data: %v", got.data)
	}
	r.want(r.call("exec_command", arguments{}), true, "failed to parse function arguments: `cmd` is missing")
	r.want(r.call("write_stdin", arguments{"session_id": 1}), true, "write_stdin failed: Unknown process id 1")
}

// Lines on standard output and standard error keep their order, in results and in searches.
func TestOrderOfOutput(t *testing.T) {
	r := newRig(t, nil, nil)
	lines := tethertest.Interleaved(1000)
	got := r.call("exec_command", arguments{"cmd": lines.Script, "login": false, "yield_time_ms": 30000})
	if got.data["output"] != lines.Both {
		t.Errorf("%s", got.text)
	}
	r.want(r.call("search_output", arguments{"chunk_id": got.data["chunk_id"], "pattern": "^e100$", "before": 1}), false, "199-o100\n200:e100\n")
}

// A command that reads a line gets it, and its session is listed until it ends.
func TestPrompt(t *testing.T) {
	r := newRig(t, nil, nil)
	got := r.call("exec_command", arguments{"cmd": `printf 'name? '; read n; echo "hi $n"`, "tty": true, "yield_time_ms": 250, "login": false})
	id := got.session()
	if id == 0 {
		t.Fatalf("%s", got.text)
	}
	r.shown(got, "name? ")
	list := r.call("list_sessions", nil)
	r.want(list, false, fmt.Sprintf("%d: running for ", id), "read n")
	if rows := list.data["sessions"].([]any); len(rows) != 1 || rows[0].(map[string]any)["tty"] != true {
		t.Errorf("%v", list.data)
	}
	r.want(r.call("write_stdin", arguments{"session_id": id, "chars": "Ada\n", "yield_time_ms": 30000}), false, "hi Ada", "Process exited with code 0")
	r.want(r.call("list_sessions", nil), false, "No sessions.")
}

func TestKill(t *testing.T) {
	r := newRig(t, nil, nil)
	got := r.call("exec_command", arguments{"cmd": "echo begun; exec sleep 1000", "yield_time_ms": 250, "login": false})
	id := got.session()
	r.want(r.call("kill_session", arguments{"session_id": id}), false, "Process exited with code 143")
	r.want(r.call("kill_session", arguments{"session_id": id}), true, "Unknown process id")
}

// When a client leaves, its commands end, also while a call waits.
func TestClientLeaves(t *testing.T) {
	r := newRig(t, nil, nil)
	pid := filepath.Join(r.workspace, "pid")
	done := make(chan struct{})
	go func() { // ends with the session
		defer close(done)
		r.session.CallTool(tethertest.Within(t), &mcp.CallToolParams{Name: "exec_command", Arguments: arguments{"login": false, "cmd": "echo $$ > pid; exec sleep 1000", "yield_time_ms": 30000}})
	}()
	begun(t, pid)
	r.server.Close()
	<-done
	gone(t, pid)
}

// begun waits until a process has written its id to a file.
func begun(t *testing.T, file string) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		text, err := os.ReadFile(file)
		if err == nil && !strings.HasSuffix(string(text), "\n") {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// gone waits until the process of which a file has the id is gone.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tethertest.Eventually(t, func() error {
		if _, err := os.Stat("/proc/" + strings.TrimSpace(string(text))); err == nil {
			return os.ErrExist
		}
		return nil
	})
}

// Output comes as it is printed, and the progress grows.
func TestProgress(t *testing.T) {
	r := newRig(t, nil, nil)
	answer := make(chan reply, 1)
	go func() {
		answer <- callOn(t, r.session, "exec_command", arguments{"cmd": "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two", "yield_time_ms": 30000, "login": false}, "T")
	}()
	<-r.told // while the command runs
	if first := r.notified()[0]; first.Message != "one\n" || first.ProgressToken != "T" {
		t.Errorf("%+v", first)
	}
	if err := os.WriteFile(filepath.Join(r.workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(<-answer, false, "Output:\none\ntwo\n")
	last := 0.0
	for _, p := range r.notified() {
		if p.Progress <= last {
			t.Errorf("%v after %v", p.Progress, last)
		}
		last = p.Progress
	}
	before := len(r.notified())
	r.sh("echo quiet") // this call has no progress token
	if got := r.notified()[before:]; len(got) > 1 || len(got) == 1 && got[0].Message != "two\n" {
		t.Errorf("%d notifications more", len(got))
	}

	id := r.call("exec_command", arguments{"cmd": "cat", "tty": true, "yield_time_ms": 250, "login": false}).session()
	for len(r.told) > 0 {
		<-r.told
	}
	go func() {
		answer <- callOn(t, r.session, "write_stdin", arguments{"session_id": id, "chars": "three\n", "yield_time_ms": 300}, 7)
	}()
	<-r.told
	<-answer
	printed := "" // the output of a terminal may come in pieces
	for _, p := range r.notified() {
		if p.ProgressToken == 7.0 {
			printed += p.Message
		}
	}
	if !strings.Contains(printed, "three") {
		t.Errorf("printed %q", printed)
	}
}

func TestSearch(t *testing.T) {
	r := newRig(t, nil, nil)
	got := r.call("exec_command", arguments{"cmd": "seq -f line-%g 1 20000; sleep 0.3", "login": false, "max_output_tokens": 100})
	if strings.Contains(got.text, "line-12345\n") {
		t.Fatal("all of it")
	}
	chunk := regexp.MustCompile(`Chunk ID: (\S+)`).FindStringSubmatch(got.text)[1]
	found := r.call("search_output", arguments{"chunk_id": chunk, "pattern": "^LINE-1234[56]$", "ignore_case": true, "before": 1})
	if want := "2 matching lines of 20000\n12344-line-12344\n12345:line-12345\n12346:line-12346\n"; found.text != want {
		t.Errorf("%q, want %q", found.text, want)
	}
	if found.data["matches"] != 2.0 {
		t.Errorf("%v", found.data)
	}
	r.want(r.call("search_output", arguments{"chunk_id": chunk, "from_line": 7, "to_line": 8}), false, "7:line-7\n8:line-8\n")
	r.want(r.call("search_output", arguments{"chunk_id": chunk, "max_matches": 1}), false, "go on with from_line 2")
	r.want(r.call("search_output", arguments{"chunk_id": "x"}), true, "Unknown chunk id x")
	r.want(r.call("search_output", arguments{}), true, "one of `session_id` and `chunk_id`")
	r.want(r.call("search_output", arguments{"chunk_id": chunk, "pattern": "("}), true, "search_output failed: ")

	id := r.call("exec_command", arguments{"cmd": "echo needle; exec sleep 1000", "yield_time_ms": 250, "login": false}).session()
	r.found(id, "need", "1:needle\n")
	r.call("kill_session", arguments{"session_id": id})
	r.want(r.call("search_output", arguments{"session_id": id, "pattern": "need"}), false, "1:needle\n")
}

// A cut of the connection to the executor has no effect.
func TestCut(t *testing.T) {
	t.Cleanup(tethertest.NothingLeft(t))
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	r := newRigAt(t, line.URL(), nil, nil)
	answer := make(chan reply, 1)
	go func() {
		answer <- callOn(t, r.session, "exec_command", arguments{"cmd": "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two", "yield_time_ms": 30000, "login": false}, "T")
	}()
	<-r.told
	line.Cut()
	if err := os.WriteFile(filepath.Join(r.workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	line.Mend()
	r.want(<-answer, false, "Process exited with code 0", "Output:\none\ntwo\n")
	if line.Links() < 2 {
		t.Errorf("%d connections", line.Links())
	}
}

// The published schema has the descriptions and defaults, and only the parameters that the client
// can use.
func TestSchemas(t *testing.T) {
	// Each rig ends before the next one counts the open files.
	properties := func(change func(*Config), answer func(*mcp.ElicitParams) *mcp.ElicitResult, tool string) (found map[string]map[string]any) {
		t.Helper()
		t.Run(tool, func(t *testing.T) {
			list, err := newRig(t, change, answer).session.ListTools(tethertest.Within(t), nil)
			if err != nil || len(list.Tools) != 8 {
				t.Fatalf("%v, %v", list, err)
			}
			for _, tl := range list.Tools {
				var schema struct {
					Properties map[string]map[string]any
				}
				raw, _ := json.Marshal(tl.InputSchema)
				if tl.Name == tool && json.Unmarshal(raw, &schema) == nil {
					found = schema.Properties
					return
				}
			}
			t.Fatalf("no %s", tool)
		})
		return found
	}
	answers := says("decline", "")
	asks := properties(confined(granular), answers, "exec_command")
	for name, value := range map[string]any{"tty": false, "yield_time_ms": 10000.0, "max_output_tokens": 10000.0, "sandbox_permissions": "use_default", "login": true} {
		if p := asks[name]; p["default"] != value || p["description"] == "" {
			t.Errorf("%s: %v", name, p)
		}
	}
	if asks["yield_time_ms"]["type"] != "integer" || asks["justification"] == nil || asks["environment_id"] != nil {
		t.Errorf("%v", asks)
	}
	for _, r := range []struct {
		change func(*Config)
		answer func(*mcp.ElicitParams) *mcp.ElicitResult
	}{{confined(unifiedexec.Policy{}), answers}, {confined(granular), nil}, {nil, answers}} {
		if p := properties(r.change, r.answer, "exec_command"); p["justification"] != nil || p["sandbox_permissions"] != nil || p["cmd"] == nil {
			t.Errorf("%v", p)
		}
	}
	if p := properties(nil, nil, "write_stdin"); p["yield_time_ms"]["default"] != 250.0 || p["chars"]["default"] != "" {
		t.Errorf("%v", p)
	}
}

// A client on a pair of streams closes them in the middle of a call.
func TestStreamsEnd(t *testing.T) {
	r := newRig(t, nil, nil)
	c := newStreams(r)
	go io.Copy(io.Discard, c.out)
	c.say("echo $$ > pid; exec sleep 1000")
	pid := filepath.Join(r.workspace, "pid")
	begun(t, pid)
	c.in.Close()
	c.end()
	gone(t, pid)
}

// A client that has closed only its output still gets its answer.
func TestStreamsEndWithQuestions(t *testing.T) {
	r := newRig(t, nil, nil)
	r.server.leaveGrace = time.Minute
	c := newStreams(r)
	heard := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(c.out)
		heard <- string(text)
	}()
	c.say("echo hello")
	c.in.Close()
	c.end()
	if text := <-heard; !strings.Contains(text, `"id":1,"result"`) || !strings.Contains(text, `Output:\nhello\n`) {
		t.Errorf("%s", text)
	}
}

// streams are the ends of a client on a pair of streams.
type streams struct {
	t      *testing.T
	in     io.WriteCloser
	out    io.Reader
	served chan error
	close  func() error
}

func newStreams(r *rig) *streams {
	in, theirIn := io.Pipe()
	theirOut, out := io.Pipe()
	c := &streams{r.t, theirIn, theirOut, make(chan error, 1), out.Close}
	go func() { c.served <- r.server.Serve(context.Background(), in, out) }()
	return c
}

// say sends initialize and a call of exec_command.
func (c *streams) say(cmd string) {
	c.t.Helper()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec_command","arguments":{"login":false,"cmd":%q,"yield_time_ms":30000}}}`, cmd),
	} {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
}

// end waits until the server has ended for this client.
func (c *streams) end() {
	c.t.Helper()
	if err := <-c.served; err != nil {
		c.t.Error(err)
	}
	c.close()
}
