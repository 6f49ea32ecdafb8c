//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/ports"
	engine "github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/terminal"
)

// canForwardPorts returns an error if a server does not show or forward the ports of a command.
func canForwardPorts(c *client.Client) error {
	switch {
	case !c.Has(client.FeaturePorts):
		return errors.New("--forward-ports: " + noForwarding)
	case !c.Has(client.FeaturePortList):
		return errors.New("--forward-ports: the server does not show on which ports a command listens: it does not run on Linux, or is not a tether server of this version")
	}
	return nil
}

// forwardPortsOf forwards the ports on which a command listens, each from the time when it begins to listen there. stop ends that.
func forwardPortsOf(conn *connection, process string, status *terminal.StatusLine) (stop func()) {
	ctx, cancel := context.WithCancel(conn.Lifetime())
	p := commandPorts{conn: conn, process: process, status: status, known: map[uint16]bool{}}
	p.tasks.Go(func() { // ends with ctx
		err := ports.Of(conn.Client).Watch(ctx, conn.PublicID(), func(l ports.Listeners) { p.forwardNew(ctx, l) })
		if ctx.Err() == nil && !errors.Is(err, client.ErrSessionLost) {
			status.Note(terminal.Printable(fmt.Sprintf("further ports of the command are not forwarded: %v", err)))
		}
	})
	return func() {
		cancel()
		p.tasks.Wait()
	}
}

// commandPorts are the ports of a command that are forwarded.
type commandPorts struct {
	conn    *connection
	process string
	status  *terminal.StatusLine
	known   map[uint16]bool
	tasks   sync.WaitGroup
}

// forwardNew forwards the ports of a list that were not forwarded before. A port on which the command has stopped to listen stays forwarded: many servers
// are restarted while one works on them.
func (p *commandPorts) forwardNew(ctx context.Context, found ports.Listeners) {
	for _, l := range found.List {
		reachable := p.conn.server.kind == kindEmbedded && !l.Inside // without being forwarded
		if l.ProcessID != p.process || reachable || p.known[l.Port] || len(p.known) > maxForwards {
			continue
		}
		p.known[l.Port] = true
		if len(p.known) > maxForwards {
			p.status.Note(fmt.Sprintf("further ports of the command are not forwarded: there are more than %d", maxForwards))
			return
		}
		p.forward(ctx, ports.At(l))
	}
}

// forward forwards one port, from the same port of this machine if that is free.
func (p *commandPorts) forward(ctx context.Context, to ports.Target) {
	list, err := engine.ListenLocal(ctx, to.Port)
	if err != nil {
		list, err = engine.ListenLocal(ctx, 0)
	}
	if err != nil {
		p.status.Note(fmt.Sprintf("port %d of the command is not forwarded: %v", to.Port, cause(err)))
		return
	}
	for _, l := range list {
		p.tasks.Go(func() { // ends with ctx
			ports.Of(p.conn.Client).Serve(ctx, l, to, func(from net.Addr, err error) {
				p.status.Note(terminal.Printable(fmt.Sprintf("connection from %s to port %d of the command: %v", from, to.Port, err)))
			})
		})
	}
	p.status.Note(fmt.Sprintf("port %d of the command is forwarded to http://%s", to.Port, list[0].Addr()))
}
