package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// leaveGrace is how long the calls of a client that has ended its input may take to
// answer: it may have asked something, and still be listening.
const leaveGrace = 2 * time.Second

// A farewell is a transport whose end is noticed when what was asked is answered: the
// server drops its calls when it reads the end. left is called then, or after leaveGrace.
type farewell struct {
	mcp.Transport
	left func()
}

// Connect implements [mcp.Transport].
func (f *farewell) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := f.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &farewellConn{Connection: c, left: f.left, answered: make(chan struct{}, 1)}, nil
}

type farewellConn struct {
	mcp.Connection
	left     func()
	answered chan struct{} // has something after each answer

	mu   sync.Mutex
	open int // requests without an answer
}

// Read implements [mcp.Connection].
func (c *farewellConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err != nil {
		c.linger(ctx)
		c.left()
		return m, err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.ID.IsValid() {
		c.count(1)
	}
	return m, nil
}

// Write implements [mcp.Connection].
func (c *farewellConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		c.count(-1)
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

func (c *farewellConn) count(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	return c.open
}

// linger waits for the answers that are due.
func (c *farewellConn) linger(ctx context.Context) {
	late := time.After(leaveGrace)
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
