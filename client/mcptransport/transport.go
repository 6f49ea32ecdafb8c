package mcptransport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client"
)

// A Transport runs a stdio MCP server on an executor, and starts it again when its
// session is lost. It is an [mcp.Transport]; each Connect starts a server of its own.
type Transport struct {
	// Client returns the session to run the server in, and another one when that is
	// lost, as [client.Lazy.Get] does. If it returns the lost one, the transport is
	// closed.
	Client func(context.Context) (*client.Client, error)

	Command Command

	// Dir, if set, returns where the server starts in a session, instead of Command.Dir.
	Dir func(*client.Client) (string, error)

	// Lazy makes Open succeed although Client returns an error: the executor may be out of
	// reach for now. Until there is a session, each request is answered with an error that
	// says why there is none. The first request for which there is one starts the server.
	Lazy bool

	// Stderr, if set, gets each line that the server prints on standard error, in order.
	// Otherwise they are logged.
	Stderr func(line []byte)

	// NotMessage, if set, is told of each line on standard output that is no message of
	// JSON-RPC, with its number from 1. If it is no JSON object or array either, it does
	// not reach the client.
	NotMessage func(number int, line []byte)

	Log *slog.Logger // nil discards it
}

var _ mcp.Transport = (*Transport)(nil)

// Connect implements [mcp.Transport]. The context bounds the start of the server only.
func (t *Transport) Connect(ctx context.Context) (mcp.Connection, error) {
	p, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{pump: p}, nil
}

// A connection is a pump whose lines are messages of the SDK.
type connection struct {
	pump    *Pump
	pending []json.RawMessage // of a batch; for the one who reads
}

// Read implements [mcp.Connection], for one goroutine. What is no message is skipped.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		for len(c.pending) > 0 {
			m, err := jsonrpc.DecodeMessage(c.pending[0])
			c.pending = c.pending[1:]
			if err == nil {
				return m, nil
			}
			c.pump.log.Warn("skipped a line of the MCP server that is no message", "err", err)
		}
		line, err := c.pump.Receive(ctx)
		if err != nil {
			return nil, err
		}
		c.pending = nil
		if !isBatch(line) {
			c.pending = append(c.pending, line)
		} else if err := json.Unmarshal(line, &c.pending); err != nil {
			return nil, fmt.Errorf("a batch of the MCP server: %w", err) // it was checked
		}
	}
}

// Write implements [mcp.Connection].
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("encode a message for the MCP server: %w", err)
	}
	err = c.pump.Send(ctx, line)
	if errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w: %w", mcp.ErrConnectionClosed, err)
	}
	return err
}

// Close implements [mcp.Connection]. It ends the server.
func (c *connection) Close() error { return c.pump.Close() }

// SessionID implements [mcp.Connection]. Servers on standard input and output have none.
func (c *connection) SessionID() string { return "" }
