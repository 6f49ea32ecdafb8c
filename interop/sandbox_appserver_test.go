//go:build interop

package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// An appServer is the real client as editors use it: `codex app-server`, one JSON message per line on stdio. It has a thread on the
// executor under test. The test acts as its user.
type appServer struct {
	t         *testing.T
	who       product
	workspace string // cwd of the thread, on the executor
	model     *model
	wire      *wireTap

	// user answers a request for approval with a decision.
	user func(approval approvalRequest) string

	asked  []approvalRequest // in order
	begun  int               // commands that the user has seen begin
	ended  int               // turns that have ended
	thread string

	client *tethertest.Client // speaks with the program
	stdin  io.Closer          // the program ends with it
	stderr bytes.Buffer       // read only after the program has ended
}

// An approvalRequest is a question of the client to its user about a command.
type approvalRequest struct {
	Method string `json:"-"`
	ItemID string `json:"itemId"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	Cmd    string `json:"command"`
	Cwd    string `json:"cwd"`
	Raw    string `json:"-"`
}

// newAppServer starts the client with a thread in this sandbox mode, in front of
// a new server of the given product.
func newAppServer(t *testing.T, who product, mode string, script func(turn int, outputs []string) modelItem) *appServer {
	t.Helper()
	tethertest.NeedBubblewrap(t)
	client := program(t, ref)
	server := startServer(t, who)
	t.Cleanup(server.stop)
	a := &appServer{t: t, who: who, model: newModel(t, script), wire: newWireTap()}
	line := tethertest.LayCableWith(t, cable.Config{Target: server.url, Tap: a.wire.tap})
	home := codexHome(t, a.model.URL)
	a.workspace = filepath.Join(home, "ws")
	a.launch(client, home, line.URL())
	a.open(mode, granularApproval)
	return a
}

// granularApproval makes the client ask its user about everything.
var granularApproval = map[string]any{"granular": map[string]any{"sandbox_approval": true, "rules": true, "mcp_elicitations": true}}

// open does the handshake and begins a thread in the workspace.
func (a *appServer) open(sandbox string, approvalPolicy any) {
	a.t.Helper()
	a.call("initialize", map[string]any{"clientInfo": map[string]any{"name": "interop", "title": nil, "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true}})
	a.send(map[string]any{"method": "initialized"})
	var started struct{ Thread struct{ ID string } }
	reply := a.call("thread/start", map[string]any{"cwd": a.workspace, "sandbox": sandbox, "approvalPolicy": approvalPolicy})
	if err := json.Unmarshal(reply, &started); err != nil || started.Thread.ID == "" {
		a.t.Fatalf("thread/start: %s", reply)
	}
	a.thread = started.Thread.ID
}

// launch starts the program; it ends with the test.
func (a *appServer) launch(client, home, url string) {
	a.t.Helper()
	cmd := exec.Command(client, "app-server")
	cmd.Dir = a.workspace
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Join(home, "user"), "CODEX_HOME=" + filepath.Join(home, "codex"),
		"CODEX_EXEC_SERVER_URL=" + url, "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	theirIn, in, err := os.Pipe()
	if err != nil {
		a.t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		a.t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, &a.stderr
	err = cmd.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		a.t.Fatal(err)
	}
	a.client, a.stdin = tethertest.NewLines(a.t, out, in), in
	a.t.Cleanup(func() {
		in.Close() // the client ends with its input
		kill := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		kill.Stop()
		if a.t.Failed() {
			a.t.Logf("the client's log:\n%s", a.stderr.String())
		}
	})
}

func (a *appServer) send(message map[string]any) {
	a.t.Helper()
	a.client.Send(canonical(message))
}

// hear takes the next message.
func (a *appServer) hear() tethertest.Message {
	a.t.Helper()
	m, err := a.client.AwaitFor(codexTimeout, func(tethertest.Message) bool { return true })
	if err != nil {
		a.t.Fatalf("waiting for a message of the client: %v", err)
	}
	return m
}

// next takes the next message, and answers it if it is a request.
func (a *appServer) next() tethertest.Message {
	a.t.Helper()
	m := a.hear()
	switch {
	case m.Method != "" && len(m.ID) > 0:
		a.decide(m)
	case m.Method == "turn/completed":
		a.ended++
	case m.Method == "item/started" && strings.Contains(string(m.Params), `"commandExecution"`):
		a.begun++
	}
	return m
}

// decide has the user answer a request.
func (a *appServer) decide(m tethertest.Message) {
	a.t.Helper()
	r := approvalRequest{Method: m.Method, Raw: string(m.Params)}
	if err := json.Unmarshal(m.Params, &r); err != nil {
		a.t.Errorf("%s: %v", m.Method, err)
	}
	a.asked = append(a.asked, r)
	decision := "decline"
	if a.user != nil {
		decision = a.user(r)
	}
	a.send(map[string]any{"id": m.ID, "result": map[string]any{"decision": decision}})
}

// call sends a request and returns its result.
func (a *appServer) call(method string, params map[string]any) json.RawMessage {
	a.t.Helper()
	id := fmt.Sprint(a.client.Ask(method, params))
	for {
		m := a.next()
		if !m.Answers(id) {
			continue
		}
		if m.Error != nil {
			a.t.Fatalf("%s: %v", method, m.Error)
		}
		return m.Result
	}
}

// turn plays one turn to its end, until its messages have been recorded.
func (a *appServer) turn() {
	a.t.Helper()
	before := a.ended
	a.call("turn/start", map[string]any{"threadId": a.thread, "input": []map[string]any{{"type": "text", "text": "do it"}}})
	for a.ended == before {
		a.next()
	}
}

// outputs are the tool outputs that the model was shown.
func (a *appServer) outputs() []string {
	a.model.mu.Lock()
	defer a.model.mu.Unlock()
	return append([]string(nil), a.model.outputs...)
}

// A wireTap records the messages about processes between client and executor.
type wireTap struct {
	mu     sync.Mutex
	starts []*tappedStart
	exits  map[string]*tappedExit
}

// A tappedStart is one process/start and its answer.
type tappedStart struct {
	link      int
	id        string
	ProcessID string          `json:"processId"`
	Sandbox   json.RawMessage `json:"sandbox"`
	Argv      []string        `json:"argv"`
	asked     time.Time
	answered  time.Time   // zero: not yet
	Type      string      `json:"sandboxType"` // of the answer
	err       *wire.Error // of the answer
}

// A tappedExit is one process/exited.
type tappedExit struct {
	at     time.Time
	Code   int   `json:"exitCode"`
	Denied *bool `json:"sandboxDenied"` // nil: absent
}

func (e tappedExit) String() string {
	if e.Denied == nil {
		return fmt.Sprintf("exit %d without sandboxDenied", e.Code)
	}
	return fmt.Sprintf("exit %d with sandboxDenied %t", e.Code, *e.Denied)
}

func newWireTap() *wireTap {
	return &wireTap{exits: map[string]*tappedExit{}}
}

func (w *wireTap) tap(m cable.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case m.From == cable.FromClient && m.Method == "process/start":
		s := &tappedStart{link: m.Link, id: m.ID, asked: m.Time}
		if json.Unmarshal(m.Params, s) == nil {
			w.starts = append(w.starts, s)
		}
	case m.From == cable.FromServer && m.Method == "process/exited":
		e := &tappedExit{at: m.Time}
		if json.Unmarshal(m.Params, e) == nil {
			w.exits[m.Process()] = e
		}
	case m.From == cable.FromServer && m.AnswerTo == "process/start":
		for _, s := range w.starts {
			if s.link == m.Link && s.id == m.ID && s.answered.IsZero() {
				s.answered, s.err = m.Time, m.Error
				_ = json.Unmarshal(m.Result, s) // an error has none
			}
		}
	}
}

// commands returns the starts whose text contains part, with their exits.
func (w *wireTap) commands(part string) (starts []tappedStart, exits []tappedExit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.starts {
		if !strings.Contains(strings.Join(s.Argv, " "), part) {
			continue
		}
		starts = append(starts, *s)
		var e tappedExit
		if seen := w.exits[s.ProcessID]; seen != nil {
			e = *seen
		}
		exits = append(exits, e)
	}
	return starts, exits
}
