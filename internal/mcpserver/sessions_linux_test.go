package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/wire"
)

// A rule holds for all commands of the MCP session that begin with it and do nothing else.
func TestScopeOfARule(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	r := newRig(t, confined(granular), func(q *mcp.ElicitParams) *mcp.ElicitResult {
		if strings.Contains(fmt.Sprint(q.RequestedSchema), scopeRule) {
			return says("accept", scopeRule)(q)
		}
		return says("accept", scopeOnce)(q)
	})
	dir := workspace(t)
	touch := func(name string) arguments {
		return arguments{"cmd": "touch " + filepath.Join(dir, name), "login": false}
	}
	asked := func(n int) {
		t.Helper()
		if got := len(r.questions()); got != n {
			t.Errorf("%d questions, want %d", got, n)
		}
	}
	first := touch("a")
	first["sandbox_permissions"], first["prefix_rule"] = "require_escalated", []string{"touch"}
	r.want(r.call("exec_command", first), false, "Process exited with code 0")
	asked(1)
	if form := fmt.Sprint(r.questions()[0].RequestedSchema); !strings.Contains(form, "[once session rule]") || !strings.Contains(form, "all commands that begin with touch, without sandbox") {
		t.Errorf("the form: %s", form)
	}
	r.want(r.call("exec_command", touch("b")), false, "Process exited with code 0")
	asked(1)
	r.want(r.sh("cp "+filepath.Join(dir, "a")+" "+filepath.Join(dir, "c")), false, "Process exited with code 0")
	asked(2) // another beginning
	r.want(r.sh("touch "+filepath.Join(dir, "d")+" > "+filepath.Join(dir, "e")), false, "Process exited with code 0")
	asked(3) // it does more

	near, far := mcp.NewInMemoryTransports()
	served := make(chan error, 1)
	go func() { served <- r.server.serve(context.Background(), far) }()
	other := r.connect(near)
	r.want(callOn(t, other, "exec_command", touch("f"), nil), false, "Process exited with code 0")
	asked(4) // another client
	other.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A question shows the additional permissions, and every character of the command.
func TestQuestionText(t *testing.T) {
	q := unifiedexec.Question{Script: "ls\x1b[2K\u202e x", Cwd: "/w", Permissions: unifiedexec.WithAdditional,
		Additional: &unifiedexec.AdditionalPermissions{Network: &unifiedexec.NetworkPermissions{Enabled: true},
			FileSystem: &unifiedexec.FilePermissions{Read: []string{"/r"}, Write: []string{"/a", "/b"}}}}
	want := "Run this command in a wider sandbox?\n\nCommand: ls\\u{1b}[2K\\u{202e} x\nDirectory: /w\n" +
		"Also allowed: the network\nAlso allowed: read /r\nAlso allowed: write /a\nAlso allowed: write /b\n"
	if got := questionText(q, true); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	for permissions, want := range map[unifiedexec.SandboxPermissions]string{
		unifiedexec.RequireEscalated: "Run this command without sandbox?\n", unifiedexec.UseDefault: "Run this command in the sandbox?\n"} {
		if got := questionText(unifiedexec.Question{Permissions: permissions}, true); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", permissions, got)
		}
	}
}

// The session of an HTTP client that sends no request ends, with its commands, unless it waits for an
// answer.
func TestHTTPIdle(t *testing.T) {
	r := newRig(t, func(c *Config) { c.HTTPIdle = 3 * time.Second }, nil)
	url := r.listen()
	s := r.connect(&mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true})
	got := callOn(t, s, "exec_command", arguments{"cmd": "exec sleep 1000", "yield_time_ms": 6500, "login": false}, nil)
	r.want(got, false, "Process running")
	r.nothingRuns()
	if _, err := s.CallTool(tethertest.Within(t), &mcp.CallToolParams{Name: "list_sessions"}); err == nil {
		t.Error("the session goes on")
	}
	s.Close()
}

// listen serves HTTP until the test ends.
func (r *rig) listen() (url string) {
	r.t.Helper()
	l, err := Listen(r.t.Context(), "http://127.0.0.1:0", "")
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.server.ServeHTTP(ctx, l) }()
	r.t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			r.t.Error(err)
		}
	})
	return l.URL
}

// nothingRuns waits until all processes of the executor have ended.
func (r *rig) nothingRuns() {
	r.t.Helper()
	tethertest.Eventually(r.t, func() error {
		processes, err := r.client.Processes(tethertest.Within(r.t), "")
		for _, p := range processes {
			if p.State == wire.StateRunning {
				return fmt.Errorf("%v is running", p.Argv)
			}
		}
		return err
	})
}

// The number of HTTP sessions is bounded.
func TestHTTPClients(t *testing.T) {
	url := newRig(t, nil, nil).listen()
	status := http.StatusOK
	n := 0
	for ; n <= maxHTTPClients && status == http.StatusOK; n++ {
		status = post(t, url, "", "")
	}
	if status != http.StatusServiceUnavailable || n < maxHTTPClients/2 {
		t.Errorf("client %d: %d", n, status)
	}
}

// A call without output reports again and again that it still runs, until its command prints.
func TestStillRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		p := &progress{silence: progressSilence, changed: make(chan struct{}, 1), notify: func(d time.Duration, text string) {
			told = append(told, fmt.Sprintf("%v %s", d, text))
		}}
		done := make(chan struct{})
		ended := make(chan struct{})
		go func() { defer close(ended); p.tell(done) }()
		time.Sleep(25 * time.Second)
		p.add("out")
		time.Sleep(11 * time.Second)
		close(done)
		<-ended
		want := "10s still running after 10 s|20s still running after 20 s|25s out|35s still running after 35 s"
		if got := strings.Join(told, "|"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
	r := newRig(t, func(c *Config) { c.Silence = 10 * time.Millisecond }, nil)
	answer := make(chan reply, 1)
	go func() {
		answer <- callOn(t, r.session, "exec_command", arguments{"cmd": "until [ -e go ]; do sleep 0.01; done", "login": false, "yield_time_ms": 30000}, "T")
	}()
	<-r.told
	<-r.told
	if got := r.notified()[1]; !regexp.MustCompile(`^still running after \d+ s$`).MatchString(got.Message) {
		t.Errorf("%+v", got)
	}
	r.call("write_file", arguments{"path": "go", "content": ""})
	r.want(<-answer, false, "Process exited with code 0")
}

// The command of a cancelled call stays as a session.
func TestCancelled(t *testing.T) {
	r := newRig(t, nil, nil)
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	done := make(chan error, 1)
	go func() {
		_, err := r.session.CallTool(ctx, &mcp.CallToolParams{Name: "exec_command", Arguments: arguments{"login": false, "cmd": "echo needle; exec sleep 1000", "yield_time_ms": 30000}})
		done <- err
	}()
	var id int
	tethertest.Eventually(t, func() error {
		rows := r.call("list_sessions", nil).data["sessions"].([]any)
		if len(rows) == 0 {
			return errors.New("no session")
		}
		id = int(rows[0].(map[string]any)["session_id"].(float64))
		return nil
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r.found(id, "need", "1:needle\n")
	r.want(r.call("kill_session", arguments{"session_id": id}), false, "Process exited with code 143", "needle\n")
}

// A session can be killed while another call waits for it, and both calls return.
func TestKillWhileAnotherWaits(t *testing.T) {
	r := newRig(t, nil, nil)
	id := r.call("exec_command", arguments{"cmd": "exec sleep 1000", "yield_time_ms": 250, "login": false}).session()
	answer := make(chan reply, 1)
	go func() {
		answer <- callOn(t, r.session, "write_stdin", arguments{"session_id": id, "yield_time_ms": 300000}, "T")
	}()
	tethertest.Eventually(t, func() error { // the other call has the session
		r.server.mu.Lock()
		defer r.server.mu.Unlock()
		for _, d := range r.server.mcpSessions {
			d.mu.Lock()
			n := len(d.watchers)
			d.mu.Unlock()
			if n == 1 {
				return nil
			}
		}
		return errors.New("no call waits")
	})
	killed := r.call("kill_session", arguments{"session_id": id})
	waited := <-answer
	if killed.isErr || waited.isErr || !strings.Contains(killed.text+waited.text, "Process exited with code 143") {
		t.Errorf("kill_session: %s\nwrite_stdin: %s", killed.text, waited.text)
	}
}

// If the executor cannot be reached, the model gets the error.
func TestNoExecutor(t *testing.T) {
	lost := errors.New("no answer")
	r := newRig(t, func(c *Config) {
		c.Client = func(context.Context) (*client.Client, error) {
			return nil, fmt.Errorf("%w: %w", lost, context.DeadlineExceeded)
		}
	}, nil)
	r.want(r.sh("true"), true, "exec_command failed: Failed to create unified exec process: no answer")
	r.want(r.call("list_dir", nil), true, "list_dir failed: no answer")
}
