// Package local runs commands on this machine: it embeds a tether server in the
// program, so that commands have here what they have elsewhere, the sandbox included.
//
// Sandboxed commands start with this program itself: run as "be-child NAME …" it does
// one small thing inside the sandbox and exits before main.
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
	Version  string       // what the server calls itself
	StateDir string       // for output that does not fit into memory; empty: the user's
	Log      *slog.Logger // nil: nothing is logged

	// UserSockets lets confined commands with the network on use the sockets of tmux,
	// ssh-agent, editors and the like of this user, which act outside of the sandbox.
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

// Client is for what else there is to do on this machine: files, other processes. It
// belongs to the executor.
func (e *Executor) Client() *client.Client { return e.client }

// Close ends all that the executor has started.
func (e *Executor) Close() error { return errors.Join(e.client.Close(), e.server.Close()) }
