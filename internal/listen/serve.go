package listen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/tetherexec/tether/internal/rpc"
)

// A Handler serves the clients of a listener.
type Handler struct {
	// Serve serves one client until the connection ends. peer is its name for the log. When the listener stops, ctx
	// ends with Stopping as its cause.
	Serve    func(ctx context.Context, stream *rpc.WebSocket, peer string)
	Stopping *rpc.CloseError

	MaxConnections int64 // a client above the limit is told to try again later
	Idle           *Idle // nil: the listener never ends by itself

	// When Leave is closed, another process goes on with the socket ([Inherit]): Serve stops to accept, gives clients
	// that are connecting a moment to complete it, and returns ErrLeft. May be nil.
	Leave <-chan struct{}
	// Leaving ends the connections then, and Serve waits until all calls of Serve have returned; nil: the connections go on.
	Leaving *rpc.CloseError

	Metrics func(io.Writer) // writes the page /metrics; nil: there is none
	AnyPath bool            // clients may upgrade at every path except those of the health checks
	Log     *slog.Logger    // nil: nothing is logged
}

// ErrLeft means that another process goes on with the socket.
var ErrLeft = errors.New("another process goes on with the socket")

// Serve passes clients to h until ctx ends, or until h.Idle ends the server. Then it closes the listener, tells the
// clients, waits until all calls of h.Serve have returned, and returns nil.
func (l *Listener) Serve(ctx context.Context, h Handler) error {
	log := cmp.Or(h.Log, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer h.Idle.begin(func() {
		log.Info("the server was not used for a while")
		cancel()
	})()
	serving, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // so that clients get the reason; not ended by Leave
	var open atomic.Int64
	var conns sync.WaitGroup
	web := &upgrader{auth: l.auth, anyNamespace: l.anyNamespace, hint: l.namespaceHint, anyPath: h.AnyPath, metrics: h.Metrics, log: log,
		leave: h.Leave, leaving: func() { l.left.Store(true) }}
	web.accept = func(conn net.Conn, buffered []byte, peer string) {
		h.Idle.connected()
		conns.Go(func() { // ends with the connection
			defer h.Idle.disconnected()
			defer open.Add(-1)
			stream := rpc.NewWebSocket(conn, buffered)
			if open.Add(1) > h.MaxConnections {
				refuseConnection(serving, stream, h.MaxConnections, log)
				return
			}
			h.Serve(serving, stream, peer)
		})
	}
	err := web.serve(ctx, l)
	switch {
	case !errors.Is(err, ErrLeft):
		stop(h.Stopping)
	case h.Leaving != nil:
		stop(h.Leaving)
	default:
		go func() { // ends with the connections
			conns.Wait()
			stop(nil)
		}()
		return err
	}
	conns.Wait()
	return err
}

// refuseConnection refuses a client above the limit of connections.
func refuseConnection(ctx context.Context, stream rpc.Stream, limit int64, log *slog.Logger) {
	log.Warn("too many connections", "limit", limit)
	c := rpc.New(ctx, stream, rpc.Config{Log: log})
	c.Close(&rpc.CloseError{Code: rpc.CloseTryAgain, Reason: fmt.Sprintf("limit reached: %d connections", limit)})
	c.Serve()
}
