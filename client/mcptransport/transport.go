package mcptransport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client/mcprelay"
)

// A Transport runs a stdio MCP server on an executor, and starts it again when its
// session is lost. It is an [mcp.Transport]; each Connect starts a server of its own.
type Transport mcprelay.Server

var _ mcp.Transport = (*Transport)(nil)

// Connect implements [mcp.Transport]. The context bounds the start of the server only.
func (t *Transport) Connect(ctx context.Context) (mcp.Connection, error) {
	p, err := (*mcprelay.Server)(t).Open(ctx)
	if err != nil {
		return nil, err
	}
	log := t.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &connection{pump: p, log: log}, nil
}

// A connection is a pump whose lines are messages of the SDK.
type connection struct {
	pump    *mcprelay.Pump
	log     *slog.Logger
	pending []json.RawMessage // messages of a batch that Read has not returned yet
}

// Read implements [mcp.Connection], for one goroutine. Lines that are not messages are skipped.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		for len(c.pending) > 0 {
			m, err := jsonrpc.DecodeMessage(c.pending[0])
			c.pending = c.pending[1:]
			if err == nil {
				return m, nil
			}
			c.log.Warn("skipped a line of the MCP server that is not a message", "err", err)
		}
		line, err := c.pump.Receive(ctx)
		if err != nil {
			return nil, err
		}
		c.pending = nil
		if !bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("[")) { // not a batch
			c.pending = append(c.pending, line)
		} else if err := json.Unmarshal(line, &c.pending); err != nil {
			return nil, fmt.Errorf("a batch of the MCP server: %w", err) // the pump has parsed it already
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
	if errors.Is(err, mcprelay.ErrClosed) {
		return fmt.Errorf("%w: %w", mcp.ErrConnectionClosed, err)
	}
	return err
}

// Close implements [mcp.Connection]. It ends the server.
func (c *connection) Close() error { return c.pump.Close() }

// SessionID implements [mcp.Connection]. Servers on standard input and output have no session id.
func (c *connection) SessionID() string { return "" }
