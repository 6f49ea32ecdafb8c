// Package mcptransport connects clients of the MCP Go SDK with stdio MCP servers on an executor:
//
//	executor := client.NewLazy("wss://build:7777", client.Options{})
//	defer executor.Close()
//	c := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
//	session, err := c.Connect(ctx, &mcptransport.Transport{
//		Client:  executor.Get,
//		Command: mcprelay.Command{Argv: []string{"docs-server"}, Dir: "/srv/project"},
//	}, nil)
//
// [mcprelay] runs the servers, and its documentation says what happens when a connection or a
// session is lost. Programs that pass on lines without reading them use it without this package
// and the SDK. This package only translates between its lines and the SDK's messages
// (transport.go).
package mcptransport
