package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long what must happen may take.
const patience = 60 * time.Second

// A client speaks with one server, in lines of JSON.
type client struct {
	in   io.WriteCloser
	done sync.WaitGroup

	sending sync.Mutex

	mu      sync.Mutex
	lastID  int
	answers map[int]chan message
	procs   map[string]*process
	decide  func(question) any // answers about hosts; nil: there are none
	err     error
}

type message struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

func newClient(in io.WriteCloser, out io.ReadCloser) *client {
	c := &client{in: in, answers: map[int]chan message{}, procs: map[string]*process{}}
	c.done.Go(func() { // ends when the server closes its output
		defer out.Close()
		c.fail(c.read(out))
	})
	return c
}

// hangUp tells the server that the client is gone. wait waits until the server
// is, too.
func (c *client) hangUp() { c.in.Close() }
func (c *client) wait()   { c.done.Wait() }

func (c *client) read(out io.Reader) error {
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the server has ended: %w", err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("message %.200q: %w", line, err)
		}
		c.dispatch(m)
	}
}

func (c *client) dispatch(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Method == "" && m.ID != nil:
		if answer := c.answers[*m.ID]; answer != nil {
			delete(c.answers, *m.ID)
			answer <- m // there is room
		}
	case strings.HasPrefix(m.Method, "process/"):
		var e event
		if err := json.Unmarshal(m.Params, &e); err != nil {
			c.err = errors.Join(c.err, err)
			return
		}
		if p := c.procs[e.ProcessID]; p != nil {
			p.add(strings.TrimPrefix(m.Method, "process/"), e)
		}
	case strings.HasPrefix(m.Method, "network/"):
		if err := c.hearLocked(m); err != nil {
			c.err = errors.Join(c.err, err)
		}
	}
}

// fail ends everybody who waits.
func (c *client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for id, answer := range c.answers {
		delete(c.answers, id)
		answer <- message{Error: &rpcError{Message: err.Error()}}
	}
	for _, p := range c.procs {
		p.fail(err)
	}
}

func (c *client) send(m any) error {
	line, err := json.Marshal(m)
	if err == nil {
		c.sending.Lock()
		defer c.sending.Unlock()
		_, err = c.in.Write(append(line, '\n'))
	}
	return err
}

// call asks and waits for the answer.
func (c *client) call(method string, params, result any) error {
	answer := make(chan message, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.lastID++
	id := c.lastID
	c.answers[id] = answer
	c.mu.Unlock()
	if err := c.send(map[string]any{"id": id, "method": method, "params": params}); err != nil {
		return err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return m.Error
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-time.After(patience):
		return fmt.Errorf("no answer to %s within %v", method, patience)
	}
}

func (c *client) handshake() error {
	if err := c.call("initialize", map[string]any{"clientName": "conformance"}, nil); err != nil {
		return err
	}
	return c.send(map[string]any{"method": "initialized", "params": map[string]any{}})
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

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with every event
	state   outcome
	err     error
}

// An outcome is what is known about a process.
type outcome struct {
	stdout, stderr string // pty counts as stdout
	all            string // in order of arrival
	early          string // what came before the exit
	exited, closed bool
	exit           int
	denied         bool
	deniedSaid     bool
	questions      []question // about hosts
	decisions      []decision
}

func (p *process) add(method string, e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state
	switch method {
	case "output":
		text := string(e.Chunk)
		if e.Stream == "stderr" {
			s.stderr += text
		} else {
			s.stdout += text
		}
		s.all += text
		if !s.exited {
			s.early += text
		}
	case "exited":
		s.exited, s.exit = true, e.ExitCode
		if e.Denied != nil {
			s.denied, s.deniedSaid = *e.Denied, true
		}
	case "closed":
		s.closed = true
	}
	p.wakeLocked()
}

func (p *process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.wakeLocked()
}

func (p *process) wakeLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// start starts a process.
func (c *client) start(params map[string]any) (*process, error) {
	p := &process{client: c, id: params["processId"].(string), changed: make(chan struct{})}
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

// until waits for a state.
func (p *process) until(t *testing.T, what string, met func(outcome) bool) outcome {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		state, err, changed := p.state, p.err, p.changed
		p.mu.Unlock()
		if met(state) {
			return state
		}
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("no %s within %v; so far: %q, exited %v", what, patience, state.all, state.exited)
		}
	}
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

// checkRead asks for the end of the process again: the answer must be the same.
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
