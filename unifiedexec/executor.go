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

// An Executor starts processes. [Remote], [RemoteLazy] and [RemoteFunc] make one of a
// client.
type Executor interface {
	// Info describes the machine that runs the commands.
	Info(context.Context) (wire.EnvironmentInfo, error)

	// Start starts a command. What the command's Sandbox asks for is enforced, or the
	// command is refused. If the context ends first, Start returns when it is known
	// what became of the command: the process that was started all the same, or an
	// error if nothing was and nothing will be. An executor that does not answer is
	// not waited for longer than 5 s.
	Start(context.Context, client.Command) (Process, error)
}

// A Process is a command that was started. Next is for one goroutine; the rest may be
// called by any.
type Process interface {
	// SandboxType is the sandbox that the executor has put the command into; "none"
	// is none, and empty is not known.
	SandboxType() string

	// Next returns the events in order. After client.Closed it returns io.EOF. If it
	// returns an error it is not called again.
	Next(context.Context) (client.Event, error)

	// Result returns how the process ended, once that is known, with the verdict of
	// the executor about its sandbox.
	Result(context.Context) (client.Exit, error)

	Write(context.Context, []byte) error
	Interrupt(context.Context) error

	// Terminate ends the command and all that it has started.
	Terminate(context.Context) error
}

// A SilenceExplainer is a Process that can tell why it prints nothing: a few words
// such as "waiting for input", or none.
type SilenceExplainer interface {
	ExplainSilence(context.Context) (string, error)
}

// A HostRefuser is a Process that knows which hosts it was refused (HOST:PORT) because its
// [client.Network] does not allow them.
type HostRefuser interface {
	RefusedHosts() []string
}

// Remote makes an executor of a client. The client stays the caller's.
func Remote(c *client.Client) Executor {
	return RemoteFunc(func(context.Context) (*client.Client, error) { return c, nil })
}

// RemoteLazy makes an executor that opens a session when one is needed. When that is
// lost, its processes are, and the next command starts in a new one.
func RemoteLazy(l *client.Lazy) Executor { return RemoteFunc(l.Get) }

// RemoteFunc makes an executor that asks for the client of each command. The clients
// stay the caller's.
func RemoteFunc(get func(context.Context) (*client.Client, error)) Executor {
	return &remote{client: get}
}

type remote struct {
	client func(context.Context) (*client.Client, error)

	mu    sync.Mutex
	asked *client.Client       // the last one whose server had to be asked for info
	info  wire.EnvironmentInfo // its answer
}

// Info is what the server said about itself with its first answer. A server that said
// nothing then is asked, once for each client.
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
		return c.Info(), nil // it does not know the question either
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
		case <-time.After(endPatience):
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

// Connection ends when the executor is out of reach.
func (p *remoteProcess) Connection() context.Context { return p.client.Connection() }

func (p *remoteProcess) Next(ctx context.Context) (client.Event, error) {
	e, err := p.events.Next(ctx)
	if err != nil {
		p.events.Close()
	}
	return e, err
}

// Terminate asks only for what has not ended.
func (p *remoteProcess) Terminate(ctx context.Context) error {
	_, err := p.Process.Terminate(ctx)
	return err
}

// ExplainSilence asks the executor what it sees of the process.
func (p *remoteProcess) ExplainSilence(ctx context.Context) (string, error) {
	state, err := p.State(ctx)
	if err != nil || state.State != wire.StateRunning || state.StateDetail.Text == "" {
		return "", err
	}
	return "no output; observed: " + state.StateDetail.Text, nil
}
