//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

const (
	// upgradePatience is how long a server may take from the beginning of an upgrade until one of the two programs serves: the
	// keeper allows 10 s each to prove itself and to serve.
	upgradePatience = 40 * time.Second
	// upgradeStep is how often the server is asked whether another worker serves.
	upgradeStep = 5 * time.Millisecond
)

func newUpgrade() *cobra.Command {
	var server serverFlags
	var to string
	cmd := &cobra.Command{
		Use:   nameUpgrade + " [flags]",
		Short: shortUpgrade,
		Long: "Let a server go on with another version of its program. Commands,\n" +
			"output and sessions stay, and clients notice nothing but a short pause. The new program first proves that it\n" +
			"can read the state of the server. If it cannot, or does not serve, the old one goes on, and the reason is told.\n\n" +
			"SIGHUP to the server does the same if the file of its program has changed. Only the user of a server may\n" +
			"upgrade it, over its Unix socket.",
		Example:               "  tether upgrade\n  tether upgrade --to ./tether-new --url unix:///run/user/1000/t.sock",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			server.quiet = true // a lost connection is what an upgrade looks like
			err := server.withObserver(ctx, cmd.ErrOrStderr(), func(conn *connection) error {
				text, err := upgrade(ctx, conn, to)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), text)
				}
				return err
			})
			return orSignal(ctx, err)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&to, "to", "", "`FILE` of the new program, on the machine of the server (default: the\nfile from which the server was started, which must have changed)")
	server.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

// upgrade replaces the program of a server, and tells the result in plain words.
func upgrade(ctx context.Context, conn *connection, to string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, upgradePatience, fmt.Errorf("it does not answer after %v", upgradePatience))
	defer cancel()
	if !conn.Has(client.FeatureKeeper) {
		return "", errors.New("the server has no keeper: its program can only be replaced by a restart, which ends its commands; start it without `--no-keeper`")
	}
	before, err := keeperState(ctx, conn.Client)
	if err != nil {
		return "", err
	}
	var params wire.UpgradeParams
	if to != "" {
		if conn.server.command == nil { // otherwise the server is on another machine
			if to, err = filepath.Abs(to); err != nil {
				return "", err
			}
		}
		params.Program = &to
	}
	goesOn := fmt.Sprintf("the server was not upgraded, version %s goes on: ", before.Version)
	err = conn.Call(ctx, client.AtMostOnce, wire.MethodKeeperUpgrade, params, nil)
	if err != nil && !errors.Is(err, client.ErrAmbiguous) { // the outcome is told by the next worker
		return "", fmt.Errorf("%s%w", goesOn, err)
	}
	after, err := nextWorker(ctx, conn, before.Worker)
	switch {
	case err != nil:
		return "", fmt.Errorf("it is not known whether the server was upgraded: %w", err)
	case after.Worker > before.Worker+1:
		return "", fmt.Errorf("%sthe new program has failed to serve: %s", goesOn, after.LastEnd)
	case after.Version == before.Version:
		return fmt.Sprintf("the new program serves, also as version %s", after.Version), nil
	}
	return fmt.Sprintf("version %s serves in place of version %s", after.Version, before.Version), nil
}

// keeperState asks the server about its keeper.
func keeperState(ctx context.Context, c *client.Client) (state wire.KeeperState, err error) {
	err = c.Call(ctx, client.Idempotent, wire.MethodKeeperState, wire.Empty{}, &state)
	return state, err
}

// nextWorker waits until a worker with a larger number answers.
func nextWorker(ctx context.Context, conn *connection, than int) (wire.KeeperState, error) {
	for {
		state, err := keeperState(ctx, conn.Client)
		if err != nil || state.Worker > than {
			return state, err
		}
		select {
		case <-time.After(upgradeStep):
		case <-ctx.Done():
			return state, context.Cause(ctx)
		}
	}
}
