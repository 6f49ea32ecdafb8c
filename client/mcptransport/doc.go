// Package mcptransport runs stdio MCP servers on an executor.
//
// A [Transport] is one for clients of the MCP Go SDK:
//
//	executor := client.NewLazy("wss://build:7777", client.Options{})
//	defer executor.Close()
//	c := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
//	session, err := c.Connect(ctx, &mcptransport.Transport{
//		Client:  executor.Get,
//		Command: mcptransport.Command{Argv: []string{"docs-server"}, Dir: "/srv/project"},
//	}, nil)
//
// A [Pump] is the same for programs that pass on lines without a look at them.
//
// # Lost connections and lost sessions
//
// A lost connection is not noticed: the server runs on, and what it says, or is told,
// arrives late. If the session is lost, the server is gone with it. Then the requests
// that wait for an answer get an error, and the next request starts the server again,
// in a new session and at most 3 times in 60 s. The client is not asked to introduce
// itself again: what it said is repeated. Whatever else the server knew is forgotten,
// subscriptions included.
//
// With [Transport.Lazy], the same holds before there was a session: requests get an error
// until the executor can be reached, and then start the server.
//
// A server that ends by itself is not started again: the transport is closed. So it is
// when output was lost, since half a message must not pass for a whole one.
package mcptransport
