package mcpserver

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/unifiedexec"
)

// outside returns a file that the sandbox does not allow to write.
func outside(t *testing.T) string { return filepath.Join(workspace(t), "file") }

func wantFile(t *testing.T, name, content string) {
	t.Helper()
	if got, err := os.ReadFile(name); content == "" && !os.IsNotExist(err) || string(got) != content {
		t.Errorf("%s has %q, %v, want %q", name, got, err, content)
	}
}

// A denied command is run again without the sandbox after the user has approved it.
func TestApproved(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	r := newRig(t, confined(granular), says("accept", ""))
	file := outside(t)
	r.want(r.sh("echo hi > in; cat in"), false, "Process exited with code 0", "hi\n")
	if len(r.questions()) != 0 {
		t.Error("asked about the workspace")
	}
	r.want(r.sh("echo text > "+file+" && echo done"), false, "Process exited with code 0", "Output:\ndone\n")
	wantFile(t, file, "text\n")
	questions := r.questions()
	if len(questions) != 1 || !strings.Contains(questions[0].Message, "echo text > "+file) || !strings.Contains(questions[0].Message, "without sandbox") {
		t.Fatalf("%+v", questions)
	}
	r.sh("echo more > " + file + " && echo done")
	r.sh("echo more > " + file + " && echo done")
	if n := len(r.questions()); n != 3 {
		t.Errorf("%d questions: an approval was for more than once", n)
	}
}

func TestApprovedForSession(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	r := newRig(t, confined(granular), says("accept", scopeSession))
	file := outside(t)
	for range 2 {
		r.want(r.sh("echo text >> "+file), false, "Process exited with code 0")
	}
	wantFile(t, file, "text\ntext\n")
	if n := len(r.questions()); n != 1 {
		t.Errorf("%d questions", n)
	}
}

// If the user declines, the command is not run again, and the result has the first output.
func TestDeclined(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	for _, action := range []string{"decline", "cancel"} {
		r := newRig(t, confined(granular), says(action, ""))
		file := outside(t)
		r.want(r.sh("echo first; echo text > "+file), false, "Process exited with code 1", "first\n",
			"Note: rejected by user: the command was not run again without the sandbox", "Note: the sandbox denied an operation of the command")
		wantFile(t, file, "")
		r.want(r.call("exec_command", arguments{"login": false, "cmd": "echo text > " + file, "sandbox_permissions": "require_escalated", "justification": "May I?"}), true, "rejected by user")
		wantFile(t, file, "")
		if q := r.questions(); len(q) != 2 || !strings.Contains(q[1].Message, "May I?") {
			t.Errorf("%+v", q)
		}
	}
}

// A denial after the session was reported leads to the same question.
func TestApprovedLater(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	r := newRig(t, confined(granular), says("accept", ""))
	file := outside(t)
	id := r.call("exec_command", arguments{"cmd": "until [ -e go ]; do sleep 0.01; done; echo text > " + file, "yield_time_ms": 250, "login": false}).session()
	if id == 0 {
		t.Fatal("no session")
	}
	if err := os.WriteFile(filepath.Join(r.workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(r.call("write_stdin", arguments{"session_id": id, "yield_time_ms": 30000}), false, "Process exited with code 0")
	wantFile(t, file, "text\n")
}

// A server that ends does not wait for an answer.
func TestCloseDoesNotWaitForAnAnswer(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	asked, end := make(chan struct{}), make(chan struct{})
	r := newRig(t, confined(granular), func(*mcp.ElicitParams) *mcp.ElicitResult {
		close(asked)
		<-end
		return &mcp.ElicitResult{Action: "accept"}
	})
	file := outside(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.session.CallTool(tethertest.Within(t), &mcp.CallToolParams{Name: "exec_command", Arguments: arguments{"login": false, "cmd": "echo text > " + file}})
	}()
	<-asked
	r.server.Close()
	close(end)
	<-done
	wantFile(t, file, "")
}

// A host that no pattern of the network matches is asked about while the command waits, also when the call has its result already.
func TestHostIsAskedAbout(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(site.Close)
	host := site.Listener.Addr().String()
	kept := make(chan string, 1)
	withHosts := func(c *Config) {
		confined(granular)(c)
		c.Network = &client.Network{AllowLocal: true}
		c.KeepHost = func(host string) error { kept <- host; return nil }
	}
	r := newRig(t, withHosts, says("accept", "once"))
	get := "curl -s --noproxy '' http://" + host + "/"
	r.want(r.sh(get), false, "Process exited with code 0", "hello")

	// The call has a result, and then the command asks.
	id := r.call("exec_command", arguments{"cmd": "until [ -e go ]; do sleep 0.01; done; " + get, "yield_time_ms": 250, "login": false}).session()
	if id == 0 {
		t.Fatal("no session")
	}
	if err := os.WriteFile(filepath.Join(r.workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(r.call("write_stdin", arguments{"session_id": id, "yield_time_ms": 30000}), false, "Process exited with code 0", "hello")

	r.answer = says("decline", "")
	r.want(r.sh(get+" --fail"), false, "Process exited with code 22", "the user did not let the command reach "+host)

	r.answer = says("accept", "good")
	r.want(r.sh(get), false, "hello")
	if got := <-kept; got != host {
		t.Errorf("kept %s", got)
	}
	r.want(r.sh(get), false, "hello")

	asked := r.questions()
	if len(asked) != 4 {
		t.Fatalf("%d questions", len(asked))
	}
	schema := fmt.Sprint(asked[0].RequestedSchema)
	if !strings.Contains(asked[0].Message, "A running command wants to reach "+host) || !strings.Contains(asked[0].Message, get) || !strings.Contains(schema, "All commands, also in later sessions") {
		t.Errorf("asked %s, %s", asked[0].Message, schema)
	}
	if text := r.session.InitializeResult().Instructions; !strings.Contains(text, "it waits until the user has answered") {
		t.Errorf("instructions: %s", text)
	}
}

// If the user cannot be asked, the result says what was denied, and how it can be allowed.
func TestClientWithoutElicitation(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	file := outside(t)
	r := newRig(t, confined(granular), nil)
	r.want(r.sh("echo text > "+file), false, "Process exited with code 1", "the MCP client does not support elicitation", "the user can allow more with the --sandbox option of `tether mcp`", "the sandbox denied an operation of the command: write "+file)
	r.want(r.call("exec_command", arguments{"login": false, "cmd": "echo text > " + file, "sandbox_permissions": "require_escalated"}), true, "the MCP client does not support elicitation")

	r = newRig(t, confined(unifiedexec.Policy{}), says("accept", ""))
	r.want(r.sh("echo text > "+file), false, "Process exited with code 1", "the sandbox denied an operation of the command", "the user can allow more with the --sandbox")
	r.want(r.call("exec_command", arguments{"login": false, "cmd": "true", "sandbox_permissions": "require_escalated"}), true, "approval policy is Never")

	r = newRig(t, confined(unifiedexec.Policy{Mode: unifiedexec.OnRequest}), says("accept", ""))
	r.want(r.sh("echo text > "+file), false, "Process exited with code 1", `with sandbox_permissions "require_escalated" exec_command asks the user`)
	wantFile(t, file, "")
	r.want(r.call("exec_command", arguments{"login": false, "cmd": "echo text > " + file, "sandbox_permissions": "require_escalated"}), false, "Process exited with code 0")
	wantFile(t, file, "text\n")
}

func TestFiles(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	r := newRig(t, confined(granular), says("decline", ""))
	r.want(r.call("write_file", arguments{"path": "a/b.txt", "content": "one\ntwo\nthree\n"}), true, "write_file failed: ")
	r.want(r.call("write_file", arguments{"path": "a/b.txt", "content": "one\ntwo\nthree\n", "create_directories": true}), false, "Wrote 14 bytes to "+r.workspace+"/a/b.txt")
	wantFile(t, filepath.Join(r.workspace, "a/b.txt"), "one\ntwo\nthree\n")
	if got := r.call("read_file", arguments{"path": "a/b.txt"}); got.text != "one\ntwo\nthree\n" || got.data["lines"] != 3.0 {
		t.Errorf("%+v", got)
	}
	if got := r.call("read_file", arguments{"path": filepath.Join(r.workspace, "a/b.txt"), "from_line": 2, "max_lines": 1}); got.text != "Lines 2 to 2 of 3:\ntwo\n" || got.data["content"] != "two\n" {
		t.Errorf("%+v", got)
	}
	r.want(r.call("read_file", arguments{"path": "a/b.txt", "from_line": 9}), false, "No lines from 9 on: there are 3.")
	if got := r.call("read_file", arguments{"path": "a/b.txt", "from_line": 2, "max_lines": math.MaxInt64}); got.data["content"] != "two\nthree\n" {
		t.Errorf("%+v", got)
	}
	r.want(r.call("write_file", arguments{"path": `c/d\e`, "content": "x", "create_directories": true}), false, `/c/d\e`)
	wantFile(t, filepath.Join(r.workspace, "c", `d\e`), "x")
	if names, err := os.ReadDir(filepath.Join(r.workspace, "c")); len(names) != 1 || err != nil {
		t.Errorf("%v, %v", names, err)
	}
	os.RemoveAll(filepath.Join(r.workspace, "c"))
	if got := r.call("list_dir", nil); got.text != "a/\n" {
		t.Errorf("%+v", got)
	}
	r.want(r.call("list_dir", arguments{"path": "a"}), false, "b.txt\n")
	r.want(r.call("read_file", arguments{"path": "missing"}), true, "read_file failed: ", "/missing: no such file or directory")
	r.want(r.call("read_file", arguments{}), true, "`path` is missing")
	r.want(r.call("write_file", arguments{"path": "x"}), true, "`content` is missing")

	file := outside(t)
	if err := os.WriteFile(file, []byte("old\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(r.call("write_file", arguments{"path": file, "content": "new"}), true, "the sandbox may not allow it", "require_escalated")
	wantFile(t, file, "old\xff")
	r.want(r.call("read_file", arguments{"path": file}), true, "is not text in UTF-8")
}

// Several clients over HTTP have their own sessions, and requests without the token or from web
// pages are refused.
func TestHTTP(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	r := newRig(t, confined(granular), says("accept", ""))
	l, err := Listen(t.Context(), "http://127.0.0.1:0", "secret")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.server.ServeHTTP(ctx, l) }()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, row := range []struct {
		header, value string
		status        int
	}{{"", "", http.StatusUnauthorized}, {"Authorization", "Bearer wrong", http.StatusUnauthorized}, {"Authorization", "Basic secret", http.StatusUnauthorized}, {"Authorization", "bearer secret", http.StatusOK}, {"Origin", "http://evil.example", http.StatusForbidden}, {"Host", "evil.example", http.StatusUnauthorized}} {
		if got := post(t, l.URL, row.header, row.value); got != row.status {
			t.Errorf("%v: %d", row, got)
		}
	}
	web := &http.Client{Transport: bearer{"secret"}}
	a := r.connect(&mcp.StreamableClientTransport{Endpoint: l.URL, HTTPClient: web})
	b := r.connect(&mcp.StreamableClientTransport{Endpoint: l.URL, HTTPClient: web})
	file := outside(t)
	r.want(callOn(t, a, "exec_command", arguments{"cmd": "echo text > " + file, "login": false}, nil), false, "Process exited with code 0")
	wantFile(t, file, "text\n")
	got := callOn(t, a, "exec_command", arguments{"cmd": "echo one; exec sleep 1000", "yield_time_ms": 5000, "login": false}, "T")
	r.want(got, false, "one\n")
	<-r.told
	r.want(callOn(t, b, "list_sessions", nil, nil), false, "No sessions.")
	r.want(callOn(t, b, "write_stdin", arguments{"session_id": got.session()}, nil), true, "Unknown process id")
	waiting := make(chan error, 1)
	go func() {
		_, err := a.CallTool(tethertest.Within(t), &mcp.CallToolParams{Name: "write_stdin", Arguments: arguments{"session_id": got.session(), "yield_time_ms": 300000}})
		waiting <- err
	}()
	leave(t, l.URL, a.ID())
	<-waiting
	a.Close() // the server no longer knows the session
	r.nothingRuns()
	r.want(callOn(t, b, "exec_command", arguments{"login": false, "cmd": "echo still"}, nil), false, "still\n")
	b.Close()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A web page whose host name resolves to the loopback address is refused, too.
func TestHTTPRebinding(t *testing.T) {
	r := newRig(t, nil, nil)
	url := r.listen()
	if got := post(t, url, "Host", "evil.example"); got != http.StatusForbidden {
		t.Errorf("%d", got)
	}
	if got := post(t, url, "", ""); got != http.StatusOK {
		t.Errorf("%d", got)
	}
}

func post(t *testing.T, url, header, value string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	switch header {
	case "":
	case "Host":
		req.Host = value
	default:
		req.Header.Set(header, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	return resp.StatusCode
}

// leave ends a session as clients do.
func leave(t *testing.T, url, id string) {
	t.Helper()
	req, err := http.NewRequestWithContext(tethertest.Within(t), http.MethodDelete, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", id)
	resp, err := bearer{"secret"}.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", resp.Status)
	}
}

type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// An IPv4 address opens no port for IPv6.
func TestListenOnOneFamily(t *testing.T) {
	l, err := Listen(t.Context(), "http://0.0.0.0:0", "token")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !strings.HasPrefix(l.URL, "http://0.0.0.0:") {
		t.Errorf("listens at %s", l.URL)
	}
}

func TestListen(t *testing.T) {
	l, err := Listen(t.Context(), "http://localhost:0", "")
	if err != nil || !strings.HasPrefix(l.URL, "http://127.0.0.1:") {
		t.Fatalf("%+v, %v", l, err)
	}
	l.Close()
	for address, token := range map[string]string{
		"http://0.0.0.0:0": "", "http://[::]:0": "", "https://127.0.0.1:0": "t", "http://127.0.0.1": "t", "ws://127.0.0.1:0": "t", "http://example.com:80": "t", "http://127.0.0.1:0/x": "",
	} {
		if l, err := Listen(t.Context(), address, token); err == nil {
			l.Close()
			t.Errorf("%s was opened", address)
		}
	}
}
