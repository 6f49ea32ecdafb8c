package conformance

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/ports"
)

// A goForward is a local port of the Go client's agent.
type goForward struct {
	cancel  context.CancelFunc
	serving sync.WaitGroup
}

func (f *goForward) stop() {
	f.cancel()
	f.serving.Wait()
}

func (g *goAgent) carryOutPorts(c command) (any, error) {
	none := map[string]any{}
	switch c.Do {
	case "forward":
		return g.forward(c)
	case "stopForward":
		g.mu.Lock()
		f := g.forwards[c.Forward]
		delete(g.forwards, c.Forward)
		g.mu.Unlock()
		f.stop()
		return none, nil
	case "exchange":
		return g.exchange(ports.Target{Host: c.Host, Port: uint16(c.Port)}, numbers(c.First, c.Last))
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

func (g *goAgent) forward(c command) (any, error) {
	to := ports.Target{Host: c.Host, Port: uint16(c.Port)}
	if c.Process != "" {
		found, err := ports.Of(g.client).Listeners(g.ctx, g.client.PublicID())
		if err != nil {
			return nil, err
		}
		for _, l := range found.List {
			to = ports.Target{Host: l.Address, Port: l.Port} // the session has one process
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(g.ctx)
	f := &goForward{cancel: cancel}
	f.serving.Go(func() { ports.Of(g.client).Serve(ctx, l, to, nil) }) // ends with stop
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forwards[c.Forward] = f
	return map[string]any{"port": l.Addr().(*net.TCPAddr).Port}, nil
}

// exchange sends bytes to a target and reads what comes back, to the end.
func (g *goAgent) exchange(to ports.Target, data []byte) (any, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		return nil, err
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { // ends with the connection
		near.Write(data)
		near.(*net.TCPConn).CloseWrite()
	})
	got := &reading{hash: sha256.New()}
	tasks.Go(func() { io.Copy(got, near) }) // ends with the connection
	err = ports.Of(g.client).Forward(g.ctx, far, to)
	tasks.Wait()
	if _, refused := errors.AsType[*client.ServerError](err); err != nil && !refused {
		err = errPort{err}
	}
	return got.summary(), err
}

// An errPort is the failure of a forwarded connection, which has no name of its own in the Go client.
type errPort struct{ error }

func (e errPort) Unwrap() error { return e.error }
