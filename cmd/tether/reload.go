//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// reloadPatience is how long a server may take to read its settings.
const reloadPatience = 30 * time.Second

func newReload() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:   nameReload + " [flags]",
		Short: shortReload,
		Long: "Let a server read its configuration file, tokens and certificates again, without a restart. From the answer\n" +
			"on, new clients need the new tokens; connections, sessions and commands live on. Settings that cannot be\n" +
			"used are refused, and the earlier ones stay in force.\n\n" +
			"SIGHUP to the server does the same. Only the user of a server may do it, over its Unix socket.",
		Example:               "  tether reload\n  tether reload --url unix:///run/user/1000/t.sock",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			err := server.withObserver(ctx, cmd.ErrOrStderr(), func(conn *connection) error {
				return reload(ctx, conn, cmd.OutOrStdout())
			})
			return orSignal(ctx, err)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	server.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

// reload lets a server read its settings, and prints what has become of them. It returns an error if some cannot be used.
func reload(ctx context.Context, conn *connection, stdout io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reloadPatience, fmt.Errorf("it does not answer after %v", reloadPatience))
	defer cancel()
	if !conn.Has(client.FeatureReload) {
		return errors.New("the server cannot read its settings again: it is too old")
	}
	var result wire.ReloadResult
	if err := conn.Call(ctx, client.Idempotent, wire.MethodReload, wire.Empty{}, &result); err != nil {
		return err
	}
	var refused []string
	same := true
	for _, s := range result.Settings {
		switch {
		case s.Error != "":
			refused = append(refused, settingsName(s.Kind)+": "+s.Error)
		case s.Changed:
			same = false
			fmt.Fprintln(stdout, settingsName(s.Kind)+": changed")
		}
	}
	if len(result.Restart) > 0 {
		same = false
		fmt.Fprintln(stdout, "not changed without a restart of the server: "+strings.Join(result.Restart, ", "))
	}
	switch {
	case len(refused) > 0:
		return errors.New("refused, the earlier settings stay in force:\n" + strings.Join(refused, "\n"))
	case same:
		fmt.Fprintln(stdout, "no setting has changed")
	}
	return nil
}

// settingsName is the name of a kind of settings for people.
func settingsName(kind string) string {
	switch kind {
	case wire.SettingsFile:
		return "configuration file"
	case wire.SettingsLogLevel:
		return "log level"
	}
	return kind
}
