//go:build mcp || fleet || !split

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client/ports"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

func newPorts() *cobra.Command {
	var server serverFlags
	asJSON := false
	cmd := &cobra.Command{
		Use:   namePorts + " [flags]",
		Short: shortPorts,
		Long: "List the TCP ports on which the processes of a server wait for connections, with the program that\n" +
			"listens. `tether forward PORT` makes one reachable here. A port with the note `inside` belongs to a\n" +
			"command with a network of its own: `tether forward NAME` reaches it.",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var found ports.Listeners
			err := server.withObserver(cmd.Context(), cmd.ErrOrStderr(), func(conn *connection) (err error) {
				found, err = ports.Of(conn.Client).Listeners(cmd.Context(), "")
				return err
			})
			if err != nil && !errors.Is(err, errNoServer) { // without a server there are no processes
				return err
			}
			if found.Partial && !server.quiet {
				printLine(cmd.ErrOrStderr(), "some ports may be missing: there are too many, or processes of other users hide theirs")
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), append([]wire.PortListener{}, found.List...))
			}
			return printPorts(cmd.OutOrStdout(), found.List)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&asJSON, "json", false, "print the answer of the server as JSON")
	server.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

func printPorts(w io.Writer, list []wire.PortListener) error {
	t := terminal.NewTable(w, 0, "PORT", "ADDRESS", "NAME", "SESSION", "PID", "PROGRAM", "NOTE")
	for _, l := range list {
		note := "-"
		if l.Inside {
			note = "inside"
		}
		t.Row(fmt.Sprint(l.Port), l.Address, l.ProcessID, shortID(l.SessionID), fmt.Sprint(l.PID), terminal.Printable(l.Name), note)
	}
	return t.Flush()
}
