package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/unifiedexec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(tethertest.AtHome(m)) }

var granular = unifiedexec.Policy{Mode: unifiedexec.Granular, SandboxApproval: true, Rules: true}

// A rig is an MCP client in front of a server with an executor.
type rig struct {
	t         *testing.T
	server    *Server
	client    *client.Client
	workspace string
	session   *mcp.ClientSession

	mu       sync.Mutex
	asked    []*mcp.ElicitParams
	progress []*mcp.ProgressNotificationParams
	told     chan struct{} // gets a value after each notification
	answer   func(*mcp.ElicitParams) *mcp.ElicitResult
}

// newRig starts the client, the server and the executor. If answer is nil, the MCP client does not
// support elicitation.
func newRig(t *testing.T, change func(*Config), answer func(*mcp.ElicitParams) *mcp.ElicitResult) *rig {
	t.Helper()
	t.Cleanup(tethertest.NothingLeft(t)) // after all that follows
	return newRigAt(t, tethertest.StartServer(t, server.Config{}).URL, change, answer)
}

func newRigAt(t *testing.T, url string, change func(*Config), answer func(*mcp.ElicitParams) *mcp.ElicitResult) *rig {
	t.Helper()
	c, err := client.Dial(tethertest.Within(t), url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := &rig{t: t, client: c, workspace: workspace(t), answer: answer, told: make(chan struct{}, 1000)}
	config := Config{Client: func(context.Context) (*client.Client, error) { return c, nil }, Cwd: r.workspace}
	if change != nil {
		change(&config)
	}
	if r.server, err = New(config); err != nil {
		t.Fatal(err)
	}
	near, far := mcp.NewInMemoryTransports()
	var serving sync.WaitGroup
	serving.Go(func() { // ends with the client
		if err := r.server.serve(context.Background(), far); err != nil {
			t.Error(err)
		}
	})
	r.session = r.connect(near)
	t.Cleanup(func() {
		r.session.Close()
		serving.Wait()
		r.server.Close()
	})
	return r
}

// connect makes the MCP client.
func (r *rig) connect(transport mcp.Transport) *mcp.ClientSession {
	r.t.Helper()
	o := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
		r.mu.Lock()
		r.progress = append(r.progress, req.Params)
		r.mu.Unlock()
		r.told <- struct{}{}
	}}
	if r.answer != nil {
		o.ElicitationHandler = func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			r.mu.Lock()
			r.asked = append(r.asked, req.Params)
			r.mu.Unlock()
			return r.answer(req.Params), nil
		}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(tethertest.Within(r.t), transport, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// workspace makes a directory outside /tmp, because sandboxes may allow writing to /tmp.
func workspace(t *testing.T) string {
	dir, err := os.MkdirTemp("/var/tmp", "mcpserver-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

type arguments = map[string]any

// A reply is what a tool has answered.
type reply struct {
	text  string
	data  map[string]any
	isErr bool
}

// session returns the id of the running session in the result.
func (r reply) session() int {
	id, _ := r.data["session_id"].(float64)
	return int(id)
}

func (r *rig) call(tool string, args arguments) reply {
	r.t.Helper()
	return callOn(r.t, r.session, tool, args, nil)
}

func callOn(t *testing.T, s *mcp.ClientSession, tool string, args arguments, token any) reply {
	t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	if token != nil {
		params.SetProgressToken(token)
	}
	result, err := s.CallTool(tethertest.Within(t), params)
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	if len(result.Content) != 1 {
		t.Fatalf("%s: %d pieces of content", tool, len(result.Content))
	}
	got := reply{text: result.Content[0].(*mcp.TextContent).Text, isErr: result.IsError}
	raw, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &got.data)
	}
	if err != nil {
		t.Fatalf("%s: structured content: %v", tool, err)
	}
	return got
}

func (r *rig) sh(cmd string) reply {
	r.t.Helper()
	return r.call("exec_command", arguments{"cmd": cmd, "login": false, "yield_time_ms": 30_000})
}

// shown asks a session for more until it has printed a text. got is its first result.
func (r *rig) shown(got reply, text string) {
	r.t.Helper()
	id, all := got.session(), got.text
	tethertest.Eventually(r.t, func() error {
		if strings.Contains(all, text) {
			return nil
		}
		more := r.call("write_stdin", arguments{"session_id": id}) // which waits
		all += more.text
		if more.session() != id {
			return fmt.Errorf("it has ended: %s", all)
		}
		return fmt.Errorf("it has printed %s", all)
	})
}

// found waits until a search finds a match: a command may need time to print.
func (r *rig) found(id int, pattern, want string) {
	r.t.Helper()
	tethertest.Eventually(r.t, func() error {
		if got := r.call("search_output", arguments{"session_id": id, "pattern": pattern}); got.isErr || !strings.Contains(got.text, want) {
			return fmt.Errorf("found %s", got.text)
		}
		return nil
	})
}

func (r *rig) questions() []*mcp.ElicitParams {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*mcp.ElicitParams(nil), r.asked...)
}

// notified is the progress so far.
func (r *rig) notified() []*mcp.ProgressNotificationParams {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*mcp.ProgressNotificationParams(nil), r.progress...)
}

func (r *rig) want(got reply, isErr bool, parts ...string) {
	r.t.Helper()
	for _, part := range parts {
		if !strings.Contains(got.text, part) || got.isErr != isErr {
			r.t.Errorf("answer (error: %v):\n%s\nwant %q", got.isErr, got.text, part)
		}
	}
}

// confined sets a workspace-write sandbox and a policy.
func confined(p unifiedexec.Policy) func(*Config) {
	return func(c *Config) { c.Sandbox, c.Policy = unifiedexec.WorkspaceWrite(), p }
}

func says(action, scope string) func(*mcp.ElicitParams) *mcp.ElicitResult {
	return func(*mcp.ElicitParams) *mcp.ElicitResult {
		r := &mcp.ElicitResult{Action: action}
		if scope != "" {
			r.Content = map[string]any{"scope": scope}
		}
		return r
	}
}
