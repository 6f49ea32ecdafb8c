//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
)

func newUpgradeHost() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:   nameUpgradeHost + " --url ssh://[USER@]HOST [flags]",
		Short: shortUpgradeHost,
		Long: "Copy this version of tether to a machine that is reached by ssh, and let the user's server there go on\n" +
			"with it. Commands, output and sessions stay, as with 'tether upgrade'; if they cannot, the server stays\n" +
			"as it is. From then on clients of this version use the copy, also if there is another tether in the PATH\n" +
			"of that machine.",
		Example:               "  tether upgrade-host --url ssh://build\n  tether upgrade-host --url ssh://board --executor-binary ./tether-linux-arm64",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			server.quiet = true // a lost connection is what an upgrade looks like
			text, err := upgradeHost(ctx, cmd, &server)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), text)
			}
			return orSignal(ctx, err)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	server.deploy.defineFile(fs)
	server.defineTarget(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

func upgradeHost(ctx context.Context, cmd *cobra.Command, server *serverFlags) (text string, err error) {
	a, _, err := server.address()
	if err != nil {
		return "", err
	}
	if !a.ssh {
		return "", usageError{errors.New("name a machine with --url " + schemeSSH + "HOST; for other servers there is `tether upgrade`")}
	}
	path, copied, err := copyToHost(ctx, a, server.deploy.file)
	if err != nil {
		return "", server.advise(a, err)
	}
	err = server.withObserver(ctx, cmd.ErrOrStderr(), func(conn *connection) error {
		if !copied && conn.Has(client.FeatureKeeper) {
			state, err := keeperState(ctx, conn.Client)
			if err == nil && state.Version == versionText() {
				text = fmt.Sprintf("version %s serves already", state.Version)
				return nil
			}
		}
		text, err = upgrade(ctx, conn, path)
		return err
	})
	return text, err
}
