package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/wire"
)

func newPs(stdout *os.File) *cobra.Command {
	var server serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "List the processes of a server",
		Long: "List the processes of a server, of all its sessions. A process is `blocked` if it is held back\n" +
			"because nobody takes its output; WAITING is what its client has not got yet. CPU and MEMORY are\n" +
			"those of the process and all that it started, where the server knows them.",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			processes := []wire.ProcessInfo{}
			err := server.visit(cmd.Context(), cmd.ErrOrStderr(), func(conn *connection) error {
				all, err := conn.Processes(cmd.Context(), "")
				processes = append(processes, all...)
				return err
			})
			if err != nil && !errors.Is(err, errNoServer) { // where nobody is, nothing runs
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), processes)
			}
			width := 0
			if isTerminal(stdout) {
				_, cols := terminalSize(stdout)
				width = int(cols)
			}
			return printProcesses(cmd.OutOrStdout(), processes, time.Now(), width)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&asJSON, "json", false, "print what the server says, for machines")
	server.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

// ownServer is which server is meant by commands that act on what runs already.
const ownServer = "the one that `run --detach` starts"
