package listen

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/tetherexec/tether/internal/loglimit"
	"github.com/tetherexec/tether/internal/rpc"
)

// Connections are those of a server, from its listener and from elsewhere. They share one limit, and end together.
type Connections struct {
	limit   int
	idle    *Idle // may be nil
	log     *slog.Logger
	serving context.Context // ends with the connections; its cause is a *rpc.CloseError
	stop    context.CancelCauseFunc
	counts  counts

	refusals loglimit.Limit // of connections above the limit

	serves sync.WaitGroup // grows only under mu, and before closed

	mu     sync.Mutex
	open   int
	closed *rpc.CloseError // why no further connection is served; nil: they are served
}

// NewConnections returns Connections without a connection. One above the limit is told to try again later. idle may be nil; without a log,
// nothing is logged.
func NewConnections(limit int, idle *Idle, log *slog.Logger) *Connections {
	c := &Connections{limit: limit, idle: idle, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
	c.serving, c.stop = context.WithCancelCause(context.Background())
	return c
}

// Serve calls serve with a connection that has come through a gateway, and returns when it has returned. If the connection cannot be served, its client is told why instead.
// The context of serve ends with a *rpc.CloseError as its cause when the connections end.
func (c *Connections) Serve(stream *rpc.WebSocket, serve func(context.Context)) {
	c.begin(stream, ViaFleet, serve)()
}

// begin counts a connection. The function that it returns must be called: it serves the connection, or refuses it.
func (c *Connections) begin(stream *rpc.WebSocket, via string, serve func(context.Context)) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why := c.closed; why != nil {
		c.counts.count(via, stopping)
		return func() { refuseConnection(stream, why, c.log) }
	}
	c.idle.connected()
	c.serves.Add(1)
	c.open++
	full := c.open > c.limit
	outcome := served
	if full {
		outcome = tooMany
	}
	c.counts.count(via, outcome)
	return func() {
		defer c.end()
		if full {
			if dropped, ok := c.refusals.Next(); ok {
				c.log.Warn("too many connections", "limit", c.limit, "unlogged", dropped)
			}
			refuseConnection(stream, &rpc.CloseError{Code: rpc.CloseTryAgain, Reason: fmt.Sprintf("limit reached: %d connections", c.limit)}, c.log)
			return
		}
		serve(c.serving)
	}
}

// Open is how many connections there are.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

func (c *Connections) end() {
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
	c.idle.disconnected()
	c.serves.Done()
}

// Refuse lets no further connection be served. Those that come are told why.
func (c *Connections) Refuse(why *rpc.CloseError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed == nil {
		c.closed = why
	}
}

// Stop ends the connections, tells their clients why, and returns when all calls of Serve have returned. No further connection
// is served.
func (c *Connections) Stop(why *rpc.CloseError) {
	c.Refuse(why)
	c.stop(why)
	c.serves.Wait()
}

// refuseConnection tells a client why its connection is not served.
func refuseConnection(stream rpc.Stream, why *rpc.CloseError, log *slog.Logger) {
	c := rpc.New(context.Background(), stream, rpc.Config{Log: log})
	c.Close(why)
	c.Serve()
}
