// Package mcprelay runs stdio MCP servers on an executor, for programs that pass on lines without reading them. It
// does not need the MCP Go SDK; [mcptransport] is the same as a transport of that SDK.
//
// # Lost connections and lost sessions
//
// If the connection is lost, the server runs on, and messages in both directions arrive late. If
// the session is lost, the server is gone with it. Then the requests that wait for an answer get
// an error, and the next request starts the server again, in a new session and at most 3 times
// in 60 s. The pump repeats the client's initialize to the new server. All other state of the
// server is lost, subscriptions included.
//
// With [Server.Lazy], the same holds before there was a session: requests get an error
// until the executor can be reached, and then start the server.
//
// A server that ends by itself is not started again: the pump is closed. It is also closed when
// output was lost, since a message may be incomplete.
//
// # Where a change belongs
//
//   - server.go and command.go: what to run, and its environment.
//   - pump.go: the public methods of a [Pump]. run.go: reading from the server, writing to it, and
//     starting it again in a new session.
//   - lines.go and message.go: lines and JSON-RPC messages. client_state.go: the requests in flight
//     and the client's initialize.
//   - serve.go: [Pump.Relay], the server on a pair of files.
//
// The tests need an MCP client, so most of them are in mcptransport.
//
// [mcptransport]: https://pkg.go.dev/github.com/tetherexec/tether/client/mcptransport
package mcprelay
