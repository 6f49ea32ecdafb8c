// Package mcprelay runs stdio MCP servers on an executor, for programs that pass on lines without a look at them. It
// does not need the MCP Go SDK; for clients of that, [mcptransport] is the same as one of its transports.
//
// server.go and command.go say what to run, pump.go carries lines, run.go starts the server again in a new session,
// ledger.go knows the requests in flight, serve.go speaks for the server on a pair of files. The tests need an MCP
// client, so most of them are in mcptransport.
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
// With [Server.Lazy], the same holds before there was a session: requests get an error
// until the executor can be reached, and then start the server.
//
// A server that ends by itself is not started again: the pump is closed. So it is
// when output was lost, since half a message must not pass for a whole one.
//
// [mcptransport]: https://pkg.go.dev/github.com/tetherexec/tether/client/mcptransport
package mcprelay
