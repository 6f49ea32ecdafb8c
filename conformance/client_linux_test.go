package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// timeLimit bounds each wait.
const timeLimit = hang.Limit

// A client is connected to one server and sorts its notifications by process.
type client struct {
	*tethertest.Conn

	mu     sync.Mutex
	procs  map[string]*process
	decide func(question) any // answers questions about hosts; nil: the client answers none
}

// newClient opens the connection with connect.
func newClient(connect func(tethertest.Handler) *tethertest.Conn) *client {
	c := &client{procs: map[string]*process{}}
	c.Conn = connect(c.handle)
	return c
}

// handle takes all messages that are not answers. A malformed message ends the connection, so that the waiting calls fail
// with the reason.
func (c *client) handle(conn *tethertest.Conn, m tethertest.Message) (taken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	switch {
	case m.Method == "":
		return false
	case strings.HasPrefix(m.Method, "process/"):
		var e event
		if err = json.Unmarshal(m.Params, &e); err == nil && c.procs[e.ProcessID] != nil {
			c.procs[e.ProcessID].addLocked(strings.TrimPrefix(m.Method, "process/"), e)
		}
	case strings.HasPrefix(m.Method, "network/"):
		err = c.hearLocked(conn, m)
	}
	if err != nil {
		conn.Drop(fmt.Errorf("%.200s: %w", m.Raw, err))
	}
	return true
}

// within returns a context that ends after timeLimit.
func within() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), timeLimit, fmt.Errorf("nothing within %v", timeLimit))
}

// call sends a request and waits for the answer.
func (c *client) call(method string, params, result any) error {
	ctx, cancel := within()
	defer cancel()
	return c.Call(ctx, method, params, result)
}

func (c *client) handshake() error {
	if err := c.call("initialize", map[string]any{"clientName": "conformance"}, nil); err != nil {
		return err
	}
	return c.Notify("initialized", map[string]any{})
}

type event struct {
	ProcessID string `json:"processId"`
	Stream    string `json:"stream"`
	Chunk     []byte `json:"chunk"`
	ExitCode  int    `json:"exitCode"`
	Denied    *bool  `json:"sandboxDenied"`
}

// A process is a command that runs on the server.
type process struct {
	client *client
	id     string

	SandboxType string
	writes      int
	state       outcome                                       // guarded by the client
	text        struct{ stdout, stderr, all strings.Builder } // of the state
}

// An outcome is the state of a process so far.
type outcome struct {
	stdout, stderr string // pty counts as stdout
	all            string // in order of arrival
	early          string // the part before the exit
	exited, closed bool
	exit           int
	denied         bool
	deniedSaid     bool
	questions      []question // about hosts
	decisions      []decision
}

// addLocked adds a notification to the state.
func (p *process) addLocked(method string, e event) {
	s := &p.state
	switch method {
	case "output":
		if e.Stream == "stderr" {
			p.text.stderr.Write(e.Chunk)
			s.stderr = p.text.stderr.String()
		} else {
			p.text.stdout.Write(e.Chunk)
			s.stdout = p.text.stdout.String()
		}
		p.text.all.Write(e.Chunk)
		s.all = p.text.all.String()
		if !s.exited {
			s.early = s.all
		}
	case "exited":
		s.exited, s.exit = true, e.ExitCode
		if e.Denied != nil {
			s.denied, s.deniedSaid = *e.Denied, true
		}
	case "closed":
		s.closed = true
	}
}

// start starts a process.
func (c *client) start(params map[string]any) (*process, error) {
	p := &process{client: c, id: params["processId"].(string)}
	c.mu.Lock()
	c.procs[p.id] = p
	c.mu.Unlock()
	var answer struct {
		SandboxType string `json:"sandboxType"`
	}
	err := c.call("process/start", params, &answer)
	p.SandboxType = answer.SandboxType
	return p, err
}

// until waits until the state meets a condition.
func (p *process) until(t *testing.T, what string, met func(outcome) bool) (state outcome) {
	t.Helper()
	ctx, cancel := within()
	defer cancel()
	err := p.client.Wait(ctx, func() bool {
		p.client.mu.Lock()
		defer p.client.mu.Unlock()
		state = p.state
		return met(state)
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; so far: %q, exited %v", what, err, state.all, state.exited)
	}
	return state
}

// finish waits until the process has closed.
func (p *process) finish(t *testing.T) outcome {
	t.Helper()
	return p.until(t, "end", func(o outcome) bool { return o.closed })
}

// says waits until the process has printed a text.
func (p *process) says(t *testing.T, text string) {
	t.Helper()
	p.until(t, fmt.Sprintf("output %q", text), func(o outcome) bool { return strings.Contains(o.all, text) })
}

// write sends input, resize a new size, signal a signal, terminate the end.
func (p *process) write(t *testing.T, text string) {
	t.Helper()
	p.writes++
	p.must(t, "process/write", map[string]any{"chunk": []byte(text), "writeId": fmt.Sprint("w", p.writes)})
}

func (p *process) resize(t *testing.T, rows, cols int) {
	t.Helper()
	p.must(t, "tether/process/resize", map[string]any{"rows": rows, "cols": cols})
}

func (p *process) signal(t *testing.T, name string) {
	t.Helper()
	p.must(t, "process/signal", map[string]any{"signal": name})
}

func (p *process) terminate(t *testing.T) {
	t.Helper()
	p.must(t, "process/terminate", map[string]any{})
}

func (p *process) must(t *testing.T, method string, params map[string]any) {
	t.Helper()
	params["processId"] = p.id
	if err := p.client.call(method, params, nil); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// checkRead reads the process again: process/read must report the same end.
func (p *process) checkRead(t *testing.T, o outcome) {
	t.Helper()
	var answer struct {
		Exited   bool  `json:"exited"`
		Closed   bool  `json:"closed"`
		ExitCode *int  `json:"exitCode"`
		Denied   *bool `json:"sandboxDenied"`
	}
	if err := p.client.call("process/read", map[string]any{"processId": p.id, "afterSeq": 1 << 40}, &answer); err != nil {
		t.Errorf("process/read: %v", err)
		return
	}
	if !answer.Exited || !answer.Closed || answer.ExitCode == nil || *answer.ExitCode != o.exit || answer.Denied == nil || *answer.Denied != o.denied {
		t.Errorf("process/read says %+v of an exit with %d, denied %v", answer, o.exit, o.denied)
	}
}
