package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/internal/wake"
)

// leaveGrace is how long calls may still be answered after the client has closed its output: it may
// still read the answers.
const leaveGrace = 2 * time.Second

// A drainingTransport delays the end of the input until all requests are answered, or for
// its grace, because the MCP library drops its calls when it reads the end. Then it calls left.
type drainingTransport struct {
	mcp.Transport
	grace time.Duration
	left  func()
}

// Connect implements [mcp.Transport].
func (f *drainingTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := f.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &drainingConn{Connection: c, grace: f.grace, left: f.left, answered: wake.New()}, nil
}

type drainingConn struct {
	mcp.Connection
	grace    time.Duration
	left     func()
	answered wake.Signal // sent after each answer

	mu   sync.Mutex
	open int // requests without an answer
}

// Read implements [mcp.Connection].
func (c *drainingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err != nil {
		c.awaitAnswers(ctx)
		c.left()
		return m, err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.ID.IsValid() {
		c.count(1)
	}
	return m, nil
}

// Write implements [mcp.Connection].
func (c *drainingConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		c.count(-1)
		c.answered.Send()
	}
	return err
}

func (c *drainingConn) count(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	return c.open
}

// awaitAnswers waits until all requests are answered, but not longer than the grace.
func (c *drainingConn) awaitAnswers(ctx context.Context) {
	late := time.After(c.grace)
	for c.count(0) > 0 {
		select {
		case <-c.answered:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}
