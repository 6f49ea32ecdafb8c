// Package local runs commands of unified exec on this machine: it embeds a tether server in the
// program, so that commands have the same features as on another machine, the sandbox included.
//
// For a sandboxed command, the server starts this program again with the arguments "be-child
// NAME …": then it does one small task inside the sandbox and exits before main.
package local

import (
	"context"
	"errors"
	"log/slog"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/embedded"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/unifiedexec"
)

// Options change an executor. The zero value is fine.
type Options struct {
	Version  string       // the version that the server reports
	StateDir string       // for output that does not fit into memory; empty: the user's state directory
	Log      *slog.Logger // nil: nothing is logged

	// UserSockets lets confined commands with the network use the sockets of this user's tmux,
	// ssh-agent, editors and similar programs, which act outside of the sandbox.
	UserSockets bool
}

// An Executor runs commands on this machine.
type Executor struct {
	unifiedexec.Executor
	client *client.Client
	server *embedded.Server
}

// Start makes an executor. The context bounds the start only.
func Start(ctx context.Context, o Options) (*Executor, error) {
	s, err := embedded.Start(ctx, server.Config{Version: o.Version, StateDir: o.StateDir, UserSockets: o.UserSockets, Log: o.Log})
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(ctx, embedded.URL, client.Options{Name: "tether-local", Connect: s.Connect, Log: o.Log})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Executor{unifiedexec.Remote(c), c, s}, nil
}

// Client returns the executor's client, for files and other processes. The executor owns it.
func (e *Executor) Client() *client.Client { return e.client }

// Close ends all processes that the executor has started.
func (e *Executor) Close() error { return errors.Join(e.client.Close(), e.server.Close()) }
