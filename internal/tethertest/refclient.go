package tethertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// How the reference client recovers from a lost connection.
const (
	RecoverFor     = 25 * time.Second
	RetryEvery     = 100 * time.Millisecond
	attemptTimeout = 10 * time.Second // to connect, and again to initialize
	codeAttached   = -32010           // the only server error on resume that is retried
)

var (
	// ErrDisconnected is the error of a call that was in flight when the connection was lost, unless the client repeats it.
	ErrDisconnected = errors.New("exec-server transport disconnected")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("client closed")
)

// RPCError is an error answer of the server.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("exec-server rejected request (%d): %s", e.Code, e.Message)
}

// RefOptions changes how a RefClient connects; the zero value is the reference
// client's behaviour.
type RefOptions struct {
	Header http.Header                      // added to each upgrade request
	Logf   func(format string, args ...any) // called with losses and recoveries
}

// A RefClient behaves like the reference client, as far as a server can notice: it takes output only from notifications, orders it
// by sequence number within the same limits, and after a lost connection reconnects, resumes its session and reads each live
// process once. It fails a process for the same reasons as the reference client.
//
// It is strict for the sake of tests and not meant for anything else.
type RefClient struct {
	url    string
	opt    RefOptions
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu         sync.Mutex
	session    string
	gen        *generation   // nil while recovering
	changed    chan struct{} // closed and replaced when gen or failed changes
	failed     error
	processes  map[string]*RefProcess // not yet closed
	starting   int                    // starts sent and not answered
	recoveries int
}

// DialRef connects to a ws:// URL and starts a session. ctx bounds the handshake
// only; Close ends the client.
func DialRef(ctx context.Context, url string, opt RefOptions) (*RefClient, error) {
	if opt.Logf == nil {
		opt.Logf = func(string, ...any) {}
	}
	life, cancel := context.WithCancel(context.Background())
	c := &RefClient{url: url, opt: opt, ctx: life, cancel: cancel,
		changed: make(chan struct{}), processes: map[string]*RefProcess{}}
	g, err := c.connect(ctx, "")
	if err != nil {
		cancel()
		return nil, err
	}
	c.gen = g
	c.wg.Go(func() { c.maintain(g) }) // ends with Close or when recovery fails
	return c, nil
}

// Close drops the connection without a close frame, as the reference client does, and waits for the client's goroutines. The server
// keeps the session until it expires.
func (c *RefClient) Close() {
	c.fail(ErrClosed)
	c.cancel()
	c.mu.Lock()
	if c.gen != nil {
		c.gen.Drop(ErrClosed)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// Recoveries tells how often a lost connection was replaced.
func (c *RefClient) Recoveries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recoveries
}

// Call sends one request and decodes its result. While the client recovers the
// call waits; if the connection is lost before the answer it fails with
// ErrDisconnected and is not repeated.
func (c *RefClient) Call(ctx context.Context, method string, params, result any) error {
	g, err := c.connected(ctx)
	if err != nil {
		return err
	}
	return g.call(ctx, method, params, result)
}

// connected waits for a connection.
func (c *RefClient) connected(ctx context.Context) (*generation, error) {
	for {
		c.mu.Lock()
		g, failed, changed := c.gen, c.failed, c.changed
		c.mu.Unlock()
		switch {
		case failed != nil:
			return nil, failed
		case g != nil && g.Err() == nil:
			return g, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// fail ends the client: every process not closed fails with err.
func (c *RefClient) fail(err error) {
	c.mu.Lock()
	if c.failed != nil {
		c.mu.Unlock()
		return
	}
	c.failed = err
	c.signalLocked()
	live := make([]*RefProcess, 0, len(c.processes))
	for _, p := range c.processes {
		live = append(live, p)
	}
	c.mu.Unlock()
	for _, p := range live {
		p.fail(err)
	}
}

func (c *RefClient) signalLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// maintain is the only goroutine that reconnects. It returns when the client is
// closed or has failed.
func (c *RefClient) maintain(g *generation) {
	for {
		<-g.Ended()
		c.mu.Lock()
		c.gen = nil
		c.signalLocked()
		over := c.failed != nil
		c.mu.Unlock()
		if over {
			return
		}
		c.opt.Logf("connection lost: %v", g.Err())
		next, err := c.recover()
		if err != nil {
			c.fail(fmt.Errorf("%w: %v; failed to resume exec-server session: %w", ErrDisconnected, g.Err(), err))
			return
		}
		g = next
	}
}

// recover tries to resume for RecoverFor, counted from now.
func (c *RefClient) recover() (*generation, error) {
	lost := time.Now()
	ctx, cancel := context.WithTimeoutCause(c.ctx, RecoverFor, fmt.Errorf("recovery timed out after %s", RecoverFor))
	defer cancel()
	for {
		g, err := c.attempt(ctx)
		if err == nil {
			c.opt.Logf("resumed after %s", time.Since(lost).Round(time.Millisecond))
			return g, nil
		}
		if permanent(err) {
			return nil, err
		}
		select {
		case <-time.After(RetryEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (last: %v)", context.Cause(ctx), err)
		}
	}
}

// permanent reports whether err ends recovery at once.
func permanent(err error) bool {
	if rpc, ok := errors.AsType[*RPCError](err); ok {
		return rpc.Code != codeAttached
	}
	_, ok := errors.AsType[*protocolError](err)
	return ok
}

// attempt is one try: connect, resume, catch up every live process, install.
func (c *RefClient) attempt(ctx context.Context) (*generation, error) {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	g, err := c.connect(ctx, session)
	if err != nil {
		return nil, err
	}
	if err := c.settled(ctx); err != nil {
		g.Close()
		return nil, err
	}
	for _, p := range c.live() {
		if err := c.catchUp(ctx, g, p); err != nil {
			g.Close()
			return nil, err
		}
	}
	if err := c.install(g); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// install makes g the connection of new calls, unless the client has failed meanwhile.
func (c *RefClient) install(g *generation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.gen = g
		c.recoveries++
		c.signalLocked()
	}
	return c.failed
}

// settled waits until no start of the lost connection is undecided: a process
// whose start was answered must not be missed by the catch-up.
func (c *RefClient) settled(ctx context.Context) error {
	for {
		c.mu.Lock()
		starting, changed := c.starting, c.changed
		c.mu.Unlock()
		if starting == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// live lists the processes whose start was answered and that are not closed.
func (c *RefClient) live() []*RefProcess {
	c.mu.Lock()
	defer c.mu.Unlock()
	var live []*RefProcess
	for _, p := range c.processes {
		if p.recoverable {
			live = append(live, p)
		}
	}
	return live
}

// catchUp reads the events that p missed. Only a lost connection is an error of the attempt. An error of p terminates and fails p
// alone.
func (c *RefClient) catchUp(ctx context.Context, g *generation, p *RefProcess) error {
	var answer readAnswer
	err := g.call(ctx, "process/read", map[string]any{
		"processId": p.id, "afterSeq": p.LastSeq(), "maxBytes": nil, "waitMs": 0}, &answer)
	if err == nil {
		err = p.recovered(answer)
	}
	if err == nil {
		return nil
	}
	if _, refused := errors.AsType[*RPCError](err); !refused && errors.Is(err, ErrDisconnected) {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.fail(fmt.Errorf("failed to recover process %s: %w", p.id, err))
	if err := g.call(ctx, "process/terminate", map[string]any{"processId": p.id}, nil); errors.Is(err, ErrDisconnected) {
		return err
	}
	return nil
}

// connect opens a connection and does the handshake; resume may be empty.
func (c *RefClient) connect(ctx context.Context, resume string) (*generation, error) {
	dialing, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	ws, err := DialWS(dialing, c.url, c.opt.Header)
	if err != nil {
		return nil, err
	}
	g := newGeneration(ws, c.notified)
	var hello struct {
		SessionID string `json:"sessionId"`
	}
	params := map[string]any{"clientName": "codex-environment", "resumeSessionId": nil}
	if resume != "" {
		params["resumeSessionId"] = resume
	}
	shaking, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if err := g.call(shaking, "initialize", params, &hello); err != nil {
		g.Close()
		return nil, err
	}
	if hello.SessionID == "" || resume != "" && hello.SessionID != resume {
		g.Close()
		return nil, &protocolError{fmt.Sprintf("asked for session %q, got %q", resume, hello.SessionID)}
	}
	if err := g.Notify("initialized", struct{}{}); err != nil {
		g.Close()
		return nil, err
	}
	c.mu.Lock()
	c.session = hello.SessionID
	c.mu.Unlock()
	return g, nil
}

// notified routes one notification. An error ends the connection, as in the reference client: it drops a server that sends malformed
// messages.
func (c *RefClient) notified(method string, params json.RawMessage) error {
	if !strings.HasPrefix(method, "process/") {
		return nil
	}
	var n notification
	short, long := takeOut(params)
	if err := json.Unmarshal(short, &n); err != nil {
		return fmt.Errorf("notification %s: %w", method, err)
	}
	n.ProcessID, n.Chunk = long.text(n.ProcessID), long.text(n.Chunk)
	c.mu.Lock()
	p := c.processes[n.ProcessID]
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	e := event{seq: n.Seq}
	switch method {
	case "process/output":
		data, err := base64.StdEncoding.DecodeString(n.Chunk)
		if err != nil {
			return fmt.Errorf("notification %s: %w", method, err)
		}
		e.kind, e.stream, e.data = eventOutput, n.Stream, data
	case "process/exited":
		if n.ExitCode == nil {
			return fmt.Errorf("notification %s: no exitCode", method)
		}
		e.kind, e.exitCode = eventExited, *n.ExitCode
		e.denied = n.SandboxDenied != nil && *n.SandboxDenied
	case "process/closed":
		e.kind = eventClosed
	default:
		return nil
	}
	p.arrived(e)
	return nil
}

// register adds p before its start is sent, so that no event can come too early.
func (c *RefClient) register(p *RefProcess) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.processes[p.id]; taken {
		return fmt.Errorf("session already registered for process %s", p.id)
	}
	c.processes[p.id] = p
	c.starting++
	return nil
}

func (c *RefClient) forget(p *RefProcess) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.processes[p.id] == p {
		delete(c.processes, p.id)
	}
}

// Start runs a command. A start whose answer was lost is not repeated: it fails
// with ErrDisconnected, and the process is terminated after the recovery.
func (c *RefClient) Start(ctx context.Context, start RefStart) (*RefProcess, error) {
	p := newRefProcess(c, start)
	g, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.register(p); err != nil {
		return nil, err
	}
	err = g.call(ctx, "process/start", start.params(), nil)
	c.mu.Lock()
	p.recoverable = err == nil
	c.starting--
	c.signalLocked()
	c.mu.Unlock()
	if err != nil {
		c.forget(p)
		if errors.Is(err, ErrDisconnected) {
			c.undo(p.id)
		}
		return nil, fmt.Errorf("start %s: %w", p.id, err)
	}
	return p, nil
}

// undo terminates a process that may or may not have been started.
func (c *RefClient) undo(id string) {
	c.wg.Go(func() { // ends once answered, or when the client fails
		for {
			g, err := c.connected(c.ctx)
			if err != nil {
				return
			}
			err = g.call(c.ctx, "process/terminate", map[string]any{"processId": id}, nil)
			if !errors.Is(err, ErrDisconnected) {
				return
			}
			<-g.Ended() // the next round waits for the next connection
		}
	})
}
