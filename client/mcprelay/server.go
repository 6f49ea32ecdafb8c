package mcprelay

import (
	"context"
	"log/slog"

	"github.com/tetherexec/tether/client"
)

// A Server is a stdio MCP server to run on an executor, and to start again when its
// session is lost.
type Server struct {
	// Client returns the session to run the server in, and another one when that is lost, as
	// [client.Lazy.Get] does. If it returns the lost session again, the pump is closed.
	Client func(context.Context) (*client.Client, error)

	Command Command

	// Dir, if set, returns the working directory for a session, instead of Command.Dir.
	Dir func(*client.Client) (string, error)

	// Lazy makes Open succeed even if Client returns an error, because the executor cannot be
	// reached yet. Until there is a session, each request is answered with that error. The
	// first request after that starts the server.
	Lazy bool

	// Stderr, if set, gets each line that the server prints on standard error, in order.
	// Otherwise they are logged.
	Stderr func(line []byte)

	// NotMessage, if set, is called with each line on standard output that is not a message of
	// JSON-RPC, and its number from 1. If the line is not a JSON object or array either, the
	// client does not get it.
	NotMessage func(number int, line []byte)

	Log *slog.Logger // nil discards messages
}
