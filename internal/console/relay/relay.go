// Package relay lets a browser on this machine use a server that it cannot reach by itself.
//
// A [Relay] passes the bytes of connections on to a server that has the console, such as one on a Unix socket. [Pages] is for a server that
// speaks no HTTP, such as the other end of ssh: it serves the page itself and passes on messages. Both listen on a port of loopback, and
// promise that no other program of the machine gets in by that port: a browser needs a code.
package relay

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/slots"
)

const (
	// maxConnections limits the connections of browsers. A browser opens six to a server, and one per page for its socket. One more
	// has to wait.
	maxConnections = 64
	// dialTime is how long the connection to the server may take.
	dialTime = 10 * time.Second
)

// A Relay passes bytes between a port of loopback and a server.
type Relay struct {
	l    net.Listener
	dial func(context.Context) (net.Conn, error)
	log  *slog.Logger
}

// Listen opens a free port of loopback. dial connects to the server.
func Listen(dial func(context.Context) (net.Conn, error), log *slog.Logger) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	return &Relay{l, dial, log}, nil
}

// Origin is the origin of the page, as the browser sees it.
func (r *Relay) Origin() string { return "http://" + r.l.Addr().String() }

// Serve passes connections on until ctx ends. Then it closes them and the port, and returns nil.
func (r *Relay) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var passing sync.WaitGroup
	defer passing.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { r.l.Close() })()
	defer r.l.Close()
	free := slots.New(maxConnections)
	for free.Take(ctx) == nil {
		browser, err := r.l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("accept connections of the browser: %w", err)
		}
		passing.Go(func() { // ends with either of the connections, or with ctx
			defer free.Free()
			if err := r.pass(ctx, browser); err != nil {
				r.log.Warn("the browser's connection to the server has failed", "err", err)
			}
		})
	}
	return nil
}

// pass passes one connection on. It returns an error if there is no connection to the server.
func (r *Relay) pass(ctx context.Context, browser net.Conn) error {
	defer browser.Close()
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	server, err := r.dial(dialing)
	if err != nil {
		return err
	}
	defer server.Close()
	end := func() {
		browser.Close()
		server.Close()
	}
	defer context.AfterFunc(ctx, end)()
	var back sync.WaitGroup
	back.Go(func() { // ends with either connection
		_, _ = io.Copy(browser, server) // both ends of a connection are ordinary
		end()                           // HTTP and WebSocket have no half-closed connections
	})
	_, _ = io.Copy(server, browser)
	end()
	back.Wait()
	return nil
}
