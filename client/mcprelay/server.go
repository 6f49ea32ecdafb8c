package mcprelay

import (
	"context"
	"log/slog"

	"github.com/tetherexec/tether/client"
)

// A Server is a stdio MCP server to run on an executor, and to start again when its
// session is lost.
type Server struct {
	// Client returns the session to run the server in, and another one when that is
	// lost, as [client.Lazy.Get] does. If it returns the lost one, the pump is
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
