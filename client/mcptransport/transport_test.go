package mcptransport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/mcprelay"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
)

// An outcome is the result of a call.
type outcome struct {
	text string
	err  error
}

// waiting begins a call that ends when the returned file exists.
func (r *rig) waiting(s *mcp.ClientSession) (file string, result <-chan outcome) {
	r.Helper()
	file = filepath.Join(r.dir, "go")
	done := make(chan outcome, 1)
	go func() {
		text, err := r.call(s, "wait", args{"file": file})
		done <- outcome{text, err}
	}()
	r.awaitFile(file + ".begun")
	if err := os.Remove(file + ".begun"); err != nil {
		r.Fatal(err)
	}
	return file, done
}

// After a cut in the middle of a call, the same server answers.
// Scenario F62.
func TestCallSurvivesCut(t *testing.T) {
	r := newRig(t)
	s := r.connect(nil)
	pid := r.must(s, "pid", nil)
	file, result := r.waiting(s)
	r.cable.Cut()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.cable.Mend()
	if got := <-result; got.err != nil || got.text != pid {
		t.Errorf("%+v, want %s", got, pid)
	}
	if n := r.cable.Links(); n != 2 {
		t.Errorf("%d connections", n)
	}
	// The request or the answer may be lost, too.
	for _, rule := range []*cable.Rule{
		r.cable.On(cable.FromClient, cable.Method("process/write"), cable.SeverBefore),
		r.cable.On(cable.FromServer, cable.Answer("process/write").Nth(2), cable.SeverBefore),
		r.cable.On(cable.FromServer, cable.Method("process/output").Nth(3), cable.SeverBefore),
	} {
		for rule.Count() == 0 {
			if got := r.must(s, "pid", nil); got != pid {
				t.Errorf("another server answers: %s, not %s", got, pid)
			}
		}
	}
}

// If the session is lost, the calls in flight fail, and the next call starts a new server, to
// which the initialize of the client is repeated.
// Scenario F63.
func TestRestartAfterLostSession(t *testing.T) {
	for _, version := range []string{"2025-06-18", ""} { // the newest has no initialize
		t.Run("version "+version, func(t *testing.T) {
			r := newRig(t)
			s := r.connectAs(version, nil)
			pid := r.must(s, "pid", nil)
			_, result := r.waiting(s)
			r.lose()
			got := <-result
			if e, ok := errors.AsType[*jsonrpc.Error](got.err); !ok || e.Code != -32000 || !strings.HasPrefix(e.Message, "Transport closed: ") {
				t.Errorf("%+v", got)
			}
			if again := r.must(s, "pid", nil); again == pid {
				t.Error("the same server has answered")
			}
			if tools, err := s.ListTools(within(t), nil); err != nil || len(tools.Tools) != 7 {
				t.Errorf("%v, %v", tools, err)
			}
			if err := r.log.has("MCP server started again"); err != nil {
				t.Error(err)
			}
		})
	}
}

// While the executor cannot be reached, each call fails with that reason. When it is back, calls
// succeed.
// Scenario F63.
func TestCallsFailWhileServerIsAway(t *testing.T) {
	r := newRig(t)
	s := r.connect(nil)
	r.must(s, "pid", nil)
	r.cable.Cut()
	r.server.Stop()
	lost, err := r.executor.Get(within(t))
	if err != nil {
		t.Fatal(err)
	}
	r.cable.OnUpgrade(cable.Any().Always(), cable.Status(404)) // the client gives up
	r.cable.Mend()
	tethertest.Eventually(t, func() error {
		if lost.Status().State != client.Failed {
			return errors.New("the client has not failed yet")
		}
		return nil
	})
	for range 5 { // these do not count as restarts
		if text, err := r.call(s, "pid", nil); err == nil || !strings.Contains(err.Error(), "Transport closed: ") {
			t.Fatalf("%s, %v", text, err)
		}
	}
	again := tethertest.LayCable(t, tethertest.StartServer(t, serverConfig()).URL)
	r.setExecutor(again.URL())
	r.must(s, "pid", nil)
}

// After the fourth loss in a minute, the server is not started again.
// Scenario F63.
func TestRestartsAtMostThreeTimesPerMinute(t *testing.T) {
	r := newRig(t)
	s := r.connect(nil)
	for range 3 {
		_, result := r.waiting(s)
		r.lose()
		if got := <-result; got.err == nil {
			t.Fatal(got)
		}
		r.must(s, "pid", nil)
	}
	_, result := r.waiting(s)
	r.lose()
	<-result
	for range 2 {
		if text, err := r.call(s, "pid", nil); err == nil || !strings.Contains(err.Error(), "started again 3 times in 1m0s") {
			t.Errorf("%s, %v", text, err)
		}
	}
}

// If Client has no other session, the transport ends with its session.
// Scenario F63.
func TestOneSessionOnly(t *testing.T) {
	r := newRig(t)
	only, err := client.Dial(within(t), r.cable.URL(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { only.Close() })
	r.transport.Client = func(context.Context) (*client.Client, error) { return only, nil }
	s := r.connect(nil)
	_, result := r.waiting(s)
	r.lose()
	if got := <-result; got.err == nil {
		t.Error(got)
	}
	if text, err := r.call(s, "pid", nil); err == nil {
		t.Error(text)
	}
	if r.over(s) == nil {
		t.Error("the transport ended without a reason")
	}
}

// The client may still be busy with a request of the lost server when the new server sends a
// request with the same id.
// Scenario F63.
func TestRequestOfLostServer(t *testing.T) {
	r := newRig(t)
	asked, answer := make(chan string, 2), make(chan string)
	s := r.connect(&mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked <- q.Params.Message
		if q.Params.Message == "second?" {
			return &mcp.ElicitResult{Action: "accept"}, nil
		}
		<-answer
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	first := make(chan error, 1)
	go func() { _, err := r.call(s, "ask", args{"text": "first?"}); first <- err }()
	if q := <-asked; q != "first?" {
		t.Fatal(q)
	}
	r.lose()
	if err := <-first; err == nil || !strings.Contains(err.Error(), "Transport closed") {
		t.Error(err)
	}
	if got := r.must(s, "ask", args{"text": "second?"}); got != "accept" {
		t.Errorf("the answer to the first server went to the second: %s", got)
	}
	close(answer)
	tethertest.Eventually(t, func() error { return r.log.has("dropped an answer to an MCP server that is gone") })
	r.must(s, "pid", nil)
}

// Scenario F64.
func TestLineTooLong(t *testing.T) {
	r := newRig(t)
	s := r.connect(nil)
	pid := r.must(s, "pid", nil)
	if text, err := r.call(s, "print", args{"bytes": 9 << 20}); err == nil {
		t.Error(text)
	}
	if err := r.over(s); err == nil || !strings.Contains(err.Error(), "stdout line is longer than 8388608 bytes") {
		t.Error(err)
	}
	r.ended(pid)
	s.Close()
	if n := r.called("process/terminate"); n != 1 {
		t.Errorf("terminated %d times", n)
	}
}

// Scenario F64.
func TestStderrLineTooLong(t *testing.T) {
	r := newRig(t)
	s := r.connect(nil)
	pid := r.must(s, "pid", nil)
	r.call(s, "print", args{"bytes": 2 << 20, "stderr": true}) // it may succeed: the answer may arrive first
	if err := r.over(s); err == nil || !strings.Contains(err.Error(), "stderr line is longer than 1048576 bytes") {
		t.Error(err)
	}
	r.ended(pid)
}

// A line of nearly 8 MiB passes.
func TestLongLinePasses(t *testing.T) {
	r := newRig(t)
	s := r.connect(nil)
	long := strings.Repeat("x", 8<<20-1000)
	if got := r.must(s, "echo", args{"text": long}); got != long {
		t.Errorf("%d bytes came back", len(got))
	}
}

// Output that is lost for good closes the transport.
// Scenario F65.
func TestLostOutputClosesTransport(t *testing.T) {
	r := newRig(t)
	s := r.connect(nil)
	pid := r.must(s, "pid", nil)
	lost := r.cable.On(cable.FromServer, cable.Method("process/output"), cable.Drop)
	r.cable.On(cable.FromServer, cable.Answer("process/read").Always(), cable.Amend(func(m map[string]any) {
		m["result"].(map[string]any)["chunks"] = []any{}
	}))
	go r.call(s, "echo", args{"text": "this answer is lost"}) // ends with the transport
	if err := lost.Await(within(t), 1); err != nil {
		t.Fatal(err)
	}
	go r.call(s, "echo", args{"text": "and shown to be by this one"})
	err := r.over(s)
	if err == nil || !strings.Contains(err.Error(), "remote MCP server output stream lost process events: expected sequence ") {
		t.Error(err)
	}
	r.ended(pid)
}

func TestLostEventsIsAGap(t *testing.T) {
	err := error(&mcprelay.LostEventsError{Expected: 3, Received: 7})
	if !errors.Is(err, client.ErrGap) || err.Error() != "remote MCP server output stream lost process events: expected sequence 3, received 7" {
		t.Error(err)
	}
}

// Any amount of standard error is logged line by line, and lines on standard output that are not
// messages are skipped.
func TestStderrAndLinesThatAreNotMessages(t *testing.T) {
	r := newRig(t)
	var lines atomic.Int64
	r.transport.Stderr = func(line []byte) {
		if len(line) == 99 {
			lines.Add(1)
		}
	}
	s := r.connect(nil)
	r.must(s, "print", args{"bytes": 20_000_000, "stderr": true, "newline": true})
	r.must(s, "print", args{"text": "hello\r\n\n42\n\"text\"\n{not json}\n{\"no\":\"message\"}\r\n[1]\n"})
	r.must(s, "pid", nil)
	tethertest.Eventually(t, func() error { // it may arrive after the answers
		if n := lines.Load(); n != 200_000 {
			return fmt.Errorf("%d lines of standard error", n)
		}
		return nil
	})
	s.Close()
}

func TestStderrIsLogged(t *testing.T) {
	r := newRig(t)
	r.must(r.connect(nil), "pid", nil)
	tethertest.Eventually(t, func() error { return r.log.has(`msg="MCP server stderr" line="toolserver is ready"`) })
}

// If the server exits, its last line is delivered even without a line end. Then the transport is
// closed, and the server is not started again.
func TestServerEnds(t *testing.T) {
	r := newRig(t)
	words := make(chan struct{}, 1)
	s := r.connect(&mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { words <- struct{}{} }})
	if text, err := r.call(s, "exit", nil); err == nil {
		t.Error(text)
	}
	r.over(s)
	select {
	case <-words:
	case <-within(t).Done():
		t.Error("the last line is missing")
	}
	if text, err := r.call(s, "pid", nil); err == nil {
		t.Error(text)
	}
	s.Close()
	if n := r.called("process/start"); n != 1 {
		t.Errorf("%d starts", n)
	}
	if n := r.called("process/terminate"); n != 0 {
		t.Errorf("terminated %d times after its end", n)
	}
}

func TestCloseEndsTheServerOnce(t *testing.T) {
	r := newRig(t)
	s := r.connect(nil)
	pid := r.must(s, "pid", nil)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s.Close()
	r.ended(pid)
	if n := r.called("process/terminate"); n != 1 {
		t.Errorf("%d times terminated", n)
	}
}

func TestStartParameters(t *testing.T) {
	t.Setenv("TETHER_TEST_REMOTE", "from the executor")
	r := newRig(t)
	r.transport.Command.Env = map[string]string{"LITERAL": "yes"}
	s := r.connect(nil)
	for name, want := range map[string]string{"LITERAL": `"yes" true`, "TETHER_TEST_REMOTE": `"" false`} {
		if got := r.must(s, "getenv", args{"name": name}); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	var got map[string]any
	if err := json.Unmarshal(r.start, &got); err != nil {
		t.Fatal(err)
	}
	if id, _ := got["processId"].(string); !strings.HasPrefix(id, "mcp-stdio-") {
		t.Errorf("process id %s", id)
	}
	policy, _ := json.Marshal(got["envPolicy"])
	want := `{"exclude":[],"ignoreDefaultExcludes":true,"includeOnly":[],"inherit":"core","set":{"LITERAL":"yes"}}`
	if string(policy) != want || got["tty"] != false || got["pipeStdin"] != true || got["sandbox"] != nil || got["metadata"] != nil {
		t.Errorf("%s", r.start)
	}

	r.transport.Command.RemoteEnv = []string{"TETHER_TEST_REMOTE"}
	s = r.connect(nil)
	for name, want := range map[string]string{"LITERAL": `"yes" true`, "TETHER_TEST_REMOTE": `"from the executor" true`} {
		if got := r.must(s, "getenv", args{"name": name}); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	var start struct {
		EnvPolicy struct {
			Inherit     string
			IncludeOnly []string
		}
	}
	json.Unmarshal(r.start, &start)
	if list := strings.Join(start.EnvPolicy.IncludeOnly, " "); start.EnvPolicy.Inherit != "all" ||
		list != "HOME LOGNAME PATH SHELL USER __CF_USER_TEXT_ENCODING LANG LC_ALL TERM TMPDIR TZ TETHER_TEST_REMOTE" {
		t.Errorf("%s", r.start)
	}
}

func TestRefusedCommands(t *testing.T) {
	for want, c := range map[string]mcprelay.Command{
		"executor stdio server requires an explicit cwd":                        {Argv: []string{"x"}},
		"no MCP server to start":                                                {Dir: "/"},
		"command must be valid Unicode for remote MCP stdio":                    {Argv: []string{"\xff"}, Dir: "/"},
		"argument must be valid Unicode for remote MCP stdio":                   {Argv: []string{"x", "\xff"}, Dir: "/"},
		"environment variable name must be valid Unicode for remote MCP stdio":  {Argv: []string{"x"}, Dir: "/", Env: map[string]string{"\xff": ""}},
		"environment variable value must be valid Unicode for remote MCP stdio": {Argv: []string{"x"}, Dir: "/", Env: map[string]string{"x": "\xff"}},
	} {
		server := mcprelay.Server{Command: c}
		if _, err := server.Open(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// In a resumed session, ids of MCP servers that an earlier program has started are not used again.
func TestServerIDsInAResumedSession(t *testing.T) {
	r := newRig(t)
	r.must(r.connect(nil), "pid", nil)
	var start struct{ ProcessID string }
	json.Unmarshal(r.start, &start)
	earlier, err := client.Dial(within(t), r.cable.URL(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	taken := client.Command{ID: nextName(t, start.ProcessID), Argv: []string{"sleep", "1000"}, Dir: "/"}
	if _, err := earlier.Start(within(t), taken); err != nil {
		t.Fatal(err)
	}
	earlier.Close()
	later, err := client.Dial(within(t), r.cable.URL(), client.Options{Resume: earlier.SessionID()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { later.Close() })
	r.transport.Client = func(context.Context) (*client.Client, error) { return later, nil }
	r.must(r.connect(nil), "pid", nil)
}
