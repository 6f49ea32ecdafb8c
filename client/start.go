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

	Stdin bool   // keep standard input open for Write; a terminal always keeps it open
	Arg0  string // argv[0] of the command, if not empty

	// Sandbox is what to enforce; nil: nothing. A server that cannot enforce it
	// refuses the command.
	Sandbox *wire.Sandbox

	// Network is what the command may reach, and nothing else; nil: Sandbox decides. A
	// server that cannot make such a network refuses the command.
	Network *Network

	// Limits are those of the command with everything that it starts; nil: those of the server, if any. A server
	// that cannot enforce them refuses the command, unless they say BestEffort. [Process.Limits] tells what is in
	// force.
	Limits *wire.Limits

	// KeepNewest lets the server drop the oldest output if the command prints more than the
	// server keeps and no client reads it, instead of blocking the command. Servers
	// without FeatureKeepNewest ignore it.
	KeepNewest bool

	// OneStream gives a command without a terminal one pipe for standard output and standard
	// error, so that the output on both keeps its order. All of it is wire.StreamStdout. It is
	// sent only to servers with FeatureOneStream; on others the command has two pipes, and the
	// output is in the order in which the server has read them.
	OneStream bool

	ID       string // names the process in the session; if empty, the client makes one up
	Metadata *wire.StartMetadata

	// Params, if set, may change the parameters of the request, for those that have no field
	// here.
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
	if cmd.Limits != nil {
		if err := cmd.Limits.Check(); err != nil {
			return nil, err
		}
		p.Limits = cmd.Limits
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

// Start starts a command. If the connection is lost meanwhile, the command is still started
// only once; if the client cannot find out whether it was started, the error is
// ErrAmbiguous. If the context ends first, a command that starts nevertheless is terminated.
func (c *Client) Start(ctx context.Context, cmd Command) (*Process, error) {
	params, err := c.startParams(cmd)
	if err != nil {
		return nil, err
	}
	p := newProcess(c, params.ProcessID)
	if cmd.Network != nil {
		p.hosts.onDecision, p.hosts.decide = cmd.Network.OnDecision, cmd.Network.Decide
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
			p.Terminate(c.ctx) // if the server cannot be reached, the command ends with the session
			p.discardOutput()
		}
	})
	return nil, context.Cause(ctx)
}

// start starts a process once, also if connections are lost. The context counts until the
// start is sent; from then on only the end of the client stops it.
func (c *Client) start(ctx context.Context, p *Process, params *wire.StartParams) error {
	err := c.Through(ctx, AtMostOnce, func(l *Link) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return c.startOn(ctx, l, ordinary, p, params)
	})
	if errors.Is(err, ErrAmbiguous) {
		known := false // whether the command was started
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

// abandon removes a process that the caller will not get. If it was started, it is ended.
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
	if err := limitsFit(l, params); err != nil {
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
	p.sandboxType, p.limits = r.SandboxType, r.TetherLimits
	return c.follow(l, p)
}

// limitsFit refuses limits that a server would ignore.
func limitsFit(l *Link, p *wire.StartParams) error {
	if p.Limits == nil || l.has(FeatureLimits) || p.Limits.BestEffort != nil && *p.Limits.BestEffort {
		return nil
	}
	return unsupported("limits of a command")
}

// follow marks a process as started: from now on the client catches up with it after each
// lost connection. If this connection is already lost, the process may have been left out,
// and follow returns that error.
func (c *Client) follow(l *Link, p *Process) error {
	p.started.Store(true)
	if !l.dead() {
		return nil
	}
	<-l.ended
	return &lostError{cause: l.err.cause, sent: true}
}

// commandStarted is the fact in doubt when the answer to a start is lost for good.
const commandStarted = "the command was started"

// startResult is the answer to process/start. Old servers do not name the sandbox.
type startResult struct {
	ProcessID   string `json:"processId"`
	SandboxType string `json:"sandboxType" wire:"default"`

	TetherLimits *wire.LimitsInForce `json:"tetherLimits"`
}

// startAgain completes a start whose answer was lost: it asks the server for the process,
// and sends the start again if that never arrived. At most one process is started, because
// its id is used once. Only the end of the connection makes it give up, not the caller's
// context or a lack of slots for calls: then the outcome would stay unknown.
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
		if hasCode(err, wire.CodeInvalidRequest) && errors.Is(err, ErrProcessExists) {
			err = c.adopt(ctx, l, p) // the first start arrived late
		}
	}
	return err
}

// startingPause is the time between questions about a process that is being started, and
// startingLimit is how long the client goes on asking: a reference server may answer "is
// starting" for ever if the connection was cut in the middle of a start.
const (
	startingPause = 50 * time.Millisecond
	startingLimit = 10 * time.Second
)

// adopt catches up with a process of the session that this client did not start, or whose
// start was not answered.
func (c *Client) adopt(ctx context.Context, l *Link, p *Process) error {
	for starting := (time.Time{}); ; { // since when the answer is that it starts
		err := p.catchUp(ctx, l)
		if err == nil {
			return c.follow(l, p)
		}
		if !refusedFor(err, processStarting) {
			return err
		}
		if starting.IsZero() {
			starting = time.Now()
		}
		if time.Since(starting) > startingLimit {
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

// Adopt returns a process of this session that an earlier client has started, see
// [Options.Resume]. Its events are delivered from the first one that the server still has.
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
