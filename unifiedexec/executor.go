package unifiedexec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// An Executor starts processes. [Remote], [RemoteLazy] and [RemoteFunc] make one from a client.
type Executor interface {
	// Info describes the machine that runs the commands.
	Info(context.Context) (wire.EnvironmentInfo, error)

	// Start starts a command. It enforces the command's Sandbox, or refuses the command. If
	// the context ends first, Start returns when the outcome is known: the process that was
	// started nevertheless, or an error if no process was started and none will be. It waits
	// at most 5 s for an executor that does not answer.
	Start(context.Context, client.Command) (Process, error)
}

// A Process is a command that was started. Next is for one goroutine; any goroutine may call the
// other methods.
type Process interface {
	// SandboxType is the kind of sandbox that the executor runs the command in; "none": without a
	// sandbox; empty: not known.
	SandboxType() string

	// Next returns the events in order. After client.Closed it returns io.EOF. After an error it
	// is not called again.
	Next(context.Context) (client.Event, error)

	// Result waits for the exit and returns it, with the executor's verdict whether the sandbox has
	// denied something.
	Result(context.Context) (client.Exit, error)

	Write(context.Context, []byte) error
	Interrupt(context.Context) error

	// Terminate ends the command and all processes that it has started.
	Terminate(context.Context) error
}

// A SilenceExplainer is a Process that can say why it prints nothing: a few words such as "waiting
// for input", or an empty text.
type SilenceExplainer interface {
	ExplainSilence(context.Context) (string, error)
}

// A HostRefuser is a Process that knows the hosts (HOST:PORT) that were refused to it because its
// [client.Network] does not allow them.
type HostRefuser interface {
	RefusedHosts() []string
}

// A LimitReporter is a Process that knows which limits it has; nil: none, or not known.
type LimitReporter interface {
	Limits() *wire.LimitsInForce
}

// Remote makes an executor from a client. The caller keeps owning the client.
func Remote(c *client.Client) Executor {
	return RemoteFunc(func(context.Context) (*client.Client, error) { return c, nil })
}

// RemoteLazy makes an executor that opens a session when one is needed. When the session is lost,
// its processes are lost too, and the next command starts in a new session.
func RemoteLazy(l *client.Lazy) Executor { return RemoteFunc(l.Get) }

// RemoteFunc makes an executor that calls get for the client of each command. The caller keeps
// owning the clients.
func RemoteFunc(get func(context.Context) (*client.Client, error)) Executor {
	return &remote{client: get}
}

type remote struct {
	client func(context.Context) (*client.Client, error)

	mu    sync.Mutex
	asked *client.Client       // the last client whose server had to be asked for info
	info  wire.EnvironmentInfo // its answer
}

// Info is the description in the server's handshake. If that has none, the server is asked, once
// for each client.
func (r *remote) Info(ctx context.Context) (wire.EnvironmentInfo, error) {
	c, err := r.client(ctx)
	if err != nil {
		return wire.EnvironmentInfo{}, err
	}
	if info := c.Info(); info.Shell.Path != "" {
		return info, nil
	}
	r.mu.Lock()
	asked, info := r.asked, r.info
	r.mu.Unlock()
	if asked == c {
		return info, nil
	}
	info, err = c.Environment(ctx)
	if _, refused := errors.AsType[*client.ServerError](err); refused {
		return c.Info(), nil // the server does not have this method either
	}
	if err != nil {
		return wire.EnvironmentInfo{}, fmt.Errorf("ask the executor about its environment: %w", err)
	}
	r.mu.Lock()
	r.asked, r.info = c, info
	r.mu.Unlock()
	return info, nil
}

func (r *remote) Start(ctx context.Context, cmd client.Command) (Process, error) {
	c, err := r.client(ctx)
	if err != nil {
		return nil, err
	}
	starting, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	returned := make(chan struct{})
	defer close(returned)
	defer context.AfterFunc(ctx, func() { // ends when Start returns
		select {
		case <-returned:
		case <-c.Connection().Done():
		case <-time.After(endTimeout):
		}
		giveUp(context.Cause(ctx))
	})()
	p, err := c.Start(starting, cmd)
	if err != nil {
		return nil, err
	}
	return &remoteProcess{p, c, p.Subscribe()}, nil
}

// A remoteProcess is a process of a client with its events.
type remoteProcess struct {
	*client.Process
	client *client.Client
	events *client.Subscription
}

// Connection ends when the connection is lost.
func (p *remoteProcess) Connection() context.Context { return p.client.Connection() }

func (p *remoteProcess) Next(ctx context.Context) (client.Event, error) {
	e, err := p.events.Next(ctx)
	if err != nil {
		p.events.Close()
	}
	return e, err
}

// Terminate ends the process. If it is done already, no request is sent.
func (p *remoteProcess) Terminate(ctx context.Context) error {
	_, err := p.Process.Terminate(ctx)
	return err
}

// ExplainSilence asks the executor what the process is doing.
func (p *remoteProcess) ExplainSilence(ctx context.Context) (string, error) {
	state, err := p.State(ctx)
	if err != nil || state.State != wire.StateRunning || state.StateDetail.Text == "" {
		return "", err
	}
	return "no output; observed: " + state.StateDetail.Text, nil
}
