package unifiedexec

import (
	"context"
	"io"
	"sync"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// A fake is an executor whose processes run a script of the test.
type fake struct {
	info        wire.EnvironmentInfo
	sandboxType string

	mu        sync.Mutex
	processes []*fakeProcess
	script    func(n int, p *fakeProcess) // runs for each process before Start returns
}

func (f *fake) Info(context.Context) (wire.EnvironmentInfo, error) {
	info := f.info
	if info.Shell.Path == "" {
		info.Shell = wire.ShellInfo{Name: "sh", Path: "/bin/sh"}
	}
	if info.PlatformOS == "" {
		info.PlatformOS = "linux"
	}
	return info, nil
}

func (f *fake) Start(_ context.Context, cmd client.Command) (Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &fakeProcess{cmd: cmd, sandboxType: noSandbox, events: make(chan client.Event, 64)}
	if cmd.Sandbox != nil {
		p.sandboxType = f.sandboxType
	}
	f.processes = append(f.processes, p)
	if f.script != nil {
		f.script(len(f.processes), p)
	}
	return p, nil
}

func (f *fake) all() []*fakeProcess {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*fakeProcess(nil), f.processes...)
}

type fakeProcess struct {
	cmd         client.Command
	sandboxType string
	events      chan client.Event
	failure     error // of Next, once events is closed

	mu         sync.Mutex
	exit       client.Exit
	terminated int
	written    string
}

// prints, exits and closes add events of the process.
func (p *fakeProcess) prints(text string) {
	p.events <- client.Event{Kind: client.Output, Data: []byte(text)}
}

func (p *fakeProcess) exits(e client.Exit) {
	p.mu.Lock()
	p.exit = e
	p.mu.Unlock()
	p.events <- client.Event{Kind: client.Exited, ExitCode: e.Code} // the verdict is only in the result
}

func (p *fakeProcess) closes() {
	p.events <- client.Event{Kind: client.Closed}
	close(p.events)
}

func (p *fakeProcess) SandboxType() string { return p.sandboxType }

func (p *fakeProcess) Next(ctx context.Context) (client.Event, error) {
	select {
	case e, ok := <-p.events:
		switch {
		case ok:
			return e, nil
		case p.failure != nil:
			return e, p.failure
		}
		return e, io.EOF
	case <-ctx.Done():
		return client.Event{}, context.Cause(ctx)
	}
}

func (p *fakeProcess) Result(context.Context) (client.Exit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit, nil
}

func (p *fakeProcess) Write(_ context.Context, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written += string(b)
	return nil
}

func (p *fakeProcess) Interrupt(context.Context) error { return nil }

// Terminate ends a process that does nothing.
func (p *fakeProcess) Terminate(context.Context) error {
	p.mu.Lock()
	first := p.terminated == 0
	p.terminated++
	p.mu.Unlock()
	if first {
		p.exits(client.Exit{Code: 137})
		p.closes()
	}
	return nil
}

func (p *fakeProcess) terminations() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.terminated
}
