//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/wire"
)

func newKill() *cobra.Command {
	var server serverFlags
	var signal string
	cmd := &cobra.Command{
		Use:   "kill [flags] ID...",
		Short: shortKill,
		Long: "End processes and all that they have started: SIGTERM, and SIGKILL soon after. With --signal, only\n" +
			"that signal is sent." + idHelp,
		Example: "  tether kill web\n  tether kill --signal HUP 3f2a91c0/web",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if signal != "" {
				name, err := wire.ParseSignal(signalByNumber(signal))
				if err != nil {
					return usageError{fmt.Errorf("--signal: %w", err)}
				}
				signal = string(name)
			}
			return server.withObserver(cmd.Context(), cmd.ErrOrStderr(), func(conn *connection) error {
				return killAll(cmd.Context(), conn, ids, signal)
			})
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "", "send this `SIGNAL` instead, by its name")
	server.defineFor(cmd, 1, -1)
	return cmd
}

// defineFor completes a command that acts on processes of a server: its arguments are ids of
// processes, at least min and at most max, and it gets the flags of the server after its own.
func (f *serverFlags) defineFor(cmd *cobra.Command, min, max int) {
	cmd.Args, cmd.ValidArgsFunction, cmd.DisableFlagsInUseLine = needID(min, max), f.completeProcesses, true
	cmd.Flags().SortFlags = false
	f.define(cmd.Flags(), ownServer)
	onlyOnce(cmd.Flags())
}

// idHelp says what the ID of a process is.
const idHelp = "\n\nID is the name of a process in `tether ps` (the newest process of that name), or SESSION/NAME.\n" +
	"Behind a gateway, tether looks for it on all hosts of the fleet, unless the URL has ?host=NAME."

// needID refuses fewer than min ids of processes, and more than max unless max is negative.
func needID(min, max int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < min:
			return usageError{errors.New("the ID of a process is missing")}
		case max >= 0 && len(args) > max:
			return usageError{fmt.Errorf("unexpected argument %q", args[max])}
		}
		return nil
	}
}

// signalByNumber returns the names of the signals that people type as numbers; these numbers are
// the same on every system.
func signalByNumber(text string) string {
	names := map[string]string{"1": "HUP", "2": "INT", "3": "QUIT", "6": "ABRT", "9": "KILL", "14": "ALRM", "15": "TERM"}
	if name, ok := names[text]; ok {
		return name
	}
	return text
}

// killAll ends the processes, or sends them a signal. It returns an error for each failure.
func killAll(ctx context.Context, conn *connection, ids []string, signal string) error {
	var failures []error
	for _, id := range ids {
		p, err := findBy(ctx, conn, id, resolveOnly)
		switch {
		case err != nil:
		case p.State == wire.StateClosed:
			err = fmt.Errorf("%s has ended already", id)
		case signal != "":
			err = conn.Remote(p.SessionID, p.ProcessID).Signal(ctx, signal)
		default:
			_, err = conn.Remote(p.SessionID, p.ProcessID).Terminate(ctx)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
