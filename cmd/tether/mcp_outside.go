//go:build !mcp && (fleet || !split)

package main

import (
	"context"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// handle replaces this process by the program that serves MCP clients.
func (m *mcpServe) handle(context.Context, *wire.Sandbox, *client.Network) error {
	return withMCP.become(nameMCP, m.args)
}
