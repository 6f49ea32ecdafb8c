package listen

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// A Handler serves the clients of a listener.
type Handler struct {
	// Serve serves one client until the connection ends. When the listener stops, ctx ends with Stopping as its cause.
	Serve    func(ctx context.Context, stream *rpc.WebSocket, client Client)
	Stopping *rpc.CloseError

	// Connections counts the connections. If it has an Idle, that ends the listener.
	Connections *Connections

	// When Leave is closed, another process goes on with the socket ([Inherit]): Serve stops to accept, gives clients
	// that are connecting a moment to complete it, and returns ErrLeft. May be nil.
	Leave <-chan struct{}
	// Leaving ends the connections then; nil: they go on.
	Leaving *rpc.CloseError

	Pages   []Page       // for clients that may connect
	Ready   func() error // why clients should connect elsewhere, for the page /readyz; nil: they never should
	AnyPath bool         // clients may upgrade at every path except those of pages
	Looking bool         // Serve lets clients with Client.ReadOnly only look; without it they are refused
	Log     *slog.Logger // nil: nothing is logged

	// Reloaded is called with what has become of settings that were read again ([Listener.Report]); nil: it is not called.
	Reloaded func([]wire.ReloadedSettings)
}

// ErrLeft means that another process goes on with the socket.
var ErrLeft = errors.New("another process goes on with the socket")

// Serve passes clients to h until ctx ends, or until the server was idle. Then it closes the listener, stops h.Connections, and returns nil.
func (l *Listener) Serve(ctx context.Context, h Handler) error {
	log := cmp.Or(h.Log, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns := h.Connections
	defer conns.idle.begin(func() {
		log.Info("the server was not used for a while")
		cancel()
	})()
	web := &upgrader{access: l.access, console: l.Console, anyNamespace: l.anyNamespace, hint: l.namespaceHint, anyPath: h.AnyPath, looking: h.Looking, pages: h.Pages, ready: h.Ready, log: log,
		via: l.via(), counts: &conns.counts, leave: h.Leave, leaving: func() { l.left.Store(true) }}
	web.accept = func(conn net.Conn, buffered []byte, client Client) {
		stream := rpc.NewWebSocket(conn, buffered)
		via := l.via()
		if client.Browser {
			via = viaConsole
		}
		client.Via = via
		go conns.begin(stream, via, func(serving context.Context) { h.Serve(serving, stream, client) })() // ends with the connection; Stop waits for it
	}
	l.access.mu.Lock()
	l.access.report = func(settings []wire.ReloadedSettings) {
		conns.reloaded(settings, log)
		if h.Reloaded != nil {
			h.Reloaded(settings)
		}
	}
	l.access.mu.Unlock()
	err := web.serve(ctx, l)
	switch {
	case !errors.Is(err, ErrLeft):
		conns.Stop(h.Stopping)
	case h.Leaving != nil:
		conns.Stop(h.Leaving)
	}
	return err
}
