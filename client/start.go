package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tetherexec/tether/wire"
)

// A Command is what to start.
type Command struct {
	Argv []string
	Dir  string // absolute path on the executor, or a file: URI; empty: the server's own

	// Env is added to the environment that EnvPolicy makes of the server's own.
	// Without a policy, commands inherit everything.
	Env       map[string]string
	EnvPolicy *wire.EnvPolicy

	TTY  bool // a terminal instead of pipes
	Rows int  // size of the terminal, on servers with FeatureTermSize; 24 × 80 if zero
	Cols int

	Stdin bool   // keep standard input open for Write; a terminal always is
	Arg0  string // what the command sees as its name, if not empty

	// Sandbox is what to enforce; nil: nothing. A server that cannot enforce it
	// refuses the command.
	Sandbox *wire.Sandbox

	// Network is what the command may reach, and nothing else; nil: what Sandbox says. A
	// server that cannot make a network refuses the command.
	Network *Network

	// KeepNewest lets the server forget the oldest output of a command that prints more
	// than it keeps and that nobody reads, instead of holding the command up. Servers
	// without FeatureKeepNewest ignore it.
	KeepNewest bool

	// OneStream gives a command without a terminal one pipe for standard output and standard
	// error, so that what it prints on both keeps its order. All of it is
	// wire.StreamStdout. It is sent only to servers with FeatureOneStream; on others the
	// command has two pipes, and the order is that in which the server has read them.
	OneStream bool

	ID       string // names the process in the session; made up if empty
	Metadata *wire.StartMetadata

	// Params, if set, may change what is sent, for parameters that have no field here.
	Params func(*wire.StartParams)
}

func (c *Client) startParams(cmd Command) (*wire.StartParams, error) {
	if len(cmd.Argv) == 0 {
		return nil, errors.New("no command to start")
	}
	p := &wire.StartParams{
		ProcessID: cmd.ID, Argv: cmd.Argv, Env: maps.Clone(cmd.Env), EnvPolicy: cmd.EnvPolicy, TTY: cmd.TTY, PipeStdin: cmd.Stdin,
		Sandbox: cmd.Sandbox, Metadata: cmd.Metadata,
	}
	if p.ProcessID == "" {
		p.ProcessID = c.NewID()
	}
	if p.Env == nil {
		p.Env = map[string]string{}
	}
	if p.EnvPolicy == nil {
		p.EnvPolicy = &wire.EnvPolicy{Inherit: wire.InheritAll, IgnoreDefaultExcludes: true,
			Exclude: []string{}, Set: map[string]string{}, IncludeOnly: []string{}}
	}
	if cmd.Arg0 != "" {
		p.Arg0 = &cmd.Arg0
	}
	if cmd.TTY && cmd.Rows > 0 && cmd.Cols > 0 {
		p.Size = &wire.TermSize{Rows: cells(cmd.Rows), Cols: cells(cmd.Cols)}
	}
	if cmd.KeepNewest {
		p.KeepNewest = &cmd.KeepNewest
	}
	if cmd.OneStream && !cmd.TTY && c.Has(FeatureOneStream) {
		p.OneStream = &cmd.OneStream
	}
	dir := cmd.Dir
	if info := c.Info(); dir == "" && info.Cwd != nil {
		dir = *info.Cwd
	}
	var err error
	if p.Cwd, err = cwd(dir); err != nil {
		return nil, err
	}
	if cmd.Network != nil {
		cmd.Network.ask(p)
	}
	if cmd.Params != nil {
		cmd.Params(p)
	}
	return p, nil
}

func cwd(dir string) (wire.Cwd, error) {
	if dir == "" {
		dir = "/"
	}
	if strings.HasPrefix(dir, "file:") {
		return wire.ParseCwd(dir)
	}
	return wire.CwdOf(dir), nil
}

// Start starts a command. A connection that is lost meanwhile does not matter: the
// command is started once, or the error tells that it may have been (ErrAmbiguous).
// If the context ends first, a command that starts nevertheless is terminated.
func (c *Client) Start(ctx context.Context, cmd Command) (*Process, error) {
	params, err := c.startParams(cmd)
	if err != nil {
		return nil, err
	}
	p := newProcess(c, params.ProcessID)
	if cmd.Network != nil {
		p.hosts.onDecision = cmd.Network.OnDecision
	}
	if err := c.processes.add(p); err != nil {
		return nil, err
	}
	result := make(chan error, 1)
	if !c.spawn(func() { result <- c.start(ctx, p, params) }) {
		return nil, c.Status().Err
	}
	select {
	case err := <-result:
		if err != nil {
			return nil, err
		}
		return p, nil
	case <-ctx.Done():
	}
	c.spawn(func() {
		if <-result == nil {
			p.Terminate(c.ctx) // if it cannot be told, it ends with the session
			p.throwAway()
		}
	})
	return nil, context.Cause(ctx)
}

// start starts a process, once, through lost connections. The context counts until the
// start is sent: from then on only the end of the client ends it.
func (c *Client) start(ctx context.Context, p *Process, params *wire.StartParams) error {
	err := c.Through(ctx, AtMostOnce, func(l *Link) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return c.startOn(ctx, l, ordinary, p, params)
	})
	if errors.Is(err, ErrAmbiguous) {
		known := false // what became of the start
		err = c.Through(c.ctx, Idempotent, func(l *Link) error {
			err := c.startAgain(l, p, params)
			_, lost := isLost(err)
			known = !lost
			return err
		})
		if !known {
			err = &ambiguousError{err, commandStarted}
		}
	}
	if err != nil {
		c.abandon(p, err)
	}
	return err
}

// abandon forgets a process that the caller will not get. One that has started is ended.
func (c *Client) abandon(p *Process, err error) {
	if p.started.Load() {
		c.giveUp(p, err)
		return
	}
	c.processes.remove(p)
}

// startOn sends the start on one connection. The context counts until it is sent.
func (c *Client) startOn(ctx context.Context, l *Link, u urgency, p *Process, params *wire.StartParams) error {
	if err := networkFits(l, params); err != nil {
		return err
	}
	call, err := l.begin(ctx, u, wire.MethodProcessStart, params)
	if err != nil {
		return err
	}
	var r startResult
	if err := call.outcome(&r); err != nil {
		return err
	}
	p.sandboxType = r.SandboxType
	return c.follow(l, p)
}

// follow has a process caught up with after each loss of the connection from now on. If
// this one is lost already, it may have been left out.
func (c *Client) follow(l *Link, p *Process) error {
	p.started.Store(true)
	if !l.dead() {
		return nil
	}
	<-l.ended
	return &lostError{cause: l.err.cause, sent: true}
}

// commandStarted is what is not known when the answer to a start is lost for good.
const commandStarted = "the command was started"

// startResult is the answer to process/start; old servers do not tell the sandbox.
type startResult struct {
	ProcessID   string `json:"processId"`
	SandboxType string `json:"sandboxType" wire:"default"`
}

// startAgain finds out what became of a start whose answer was lost, and makes up
// for it. At most one process comes of it, as its id is used once. Only the end of the
// connection makes it give up, not the caller's context or a lack of places for calls:
// then nobody would know.
func (c *Client) startAgain(l *Link, p *Process, params *wire.StartParams) error {
	ctx := context.Background()
	if l.has(FeatureRetryStart) {
		again := *params
		yes := true
		again.Retry = &yes
		if err := c.startOn(ctx, l, patient, p, &again); err != nil {
			return err
		}
		return p.catchUp(ctx, l)
	}
	err := c.adopt(ctx, l, p)
	if hasCode(err, wire.CodeInvalidRequest) && !errors.Is(err, ErrAmbiguous) {
		err = c.startOn(ctx, l, patient, p, params)
		if hasCode(err, wire.CodeInvalidRequest) && refusedFor(err, processExists) {
			err = c.adopt(ctx, l, p) // the first one was slow to arrive
		}
	}
	return err
}

// startingPause is between questions about a process that is being started, and
// startingLimit is for how long they are asked: a reference server says so for ever
// when the connection was cut at a bad moment.
const (
	startingPause = 50 * time.Millisecond
	startingLimit = 10 * time.Second
)

// adopt takes over a process that the session has.
func (c *Client) adopt(ctx context.Context, l *Link, p *Process) error {
	for asked := time.Now(); ; {
		err := p.catchUp(ctx, l)
		if err == nil {
			return c.follow(l, p)
		}
		if !refusedFor(err, processStarting) {
			return err
		}
		if time.Since(asked) > startingLimit {
			c.giveUp(p, err)
			return &ambiguousError{err, commandStarted}
		}
		select {
		case <-time.After(startingPause):
		case <-l.ended:
			return &lostError{cause: l.err.cause, sent: true}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Adopt returns a process of this session that was started by an earlier client,
// see [Options.Resume]. Its events are delivered from the first one that the server
// still has.
func (c *Client) Adopt(ctx context.Context, id string) (*Process, error) {
	p := newProcess(c, id)
	if err := c.processes.add(p); err != nil {
		return nil, err
	}
	if err := c.Through(ctx, Idempotent, func(l *Link) error { return c.adopt(ctx, l, p) }); err != nil {
		c.processes.remove(p)
		return nil, err
	}
	return p, nil
}

func unsupported(what string) error { return fmt.Errorf("%s: %w", what, ErrUnsupported) }
