package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/terminal"
)

func newShell(stdin, stdout *os.File) *cobra.Command {
	r := runCommand{stdin: stdin, stdout: stdout, tty: true, login: true}
	cmd := &cobra.Command{
		Use:   "shell [flags]",
		Short: "Open a shell, here or on another machine",
		Long: "Open the login shell of the server's user on this terminal. It survives lost connections.\n" +
			"With a server, Enter ~ . disconnects and ends it, also while the connection is lost; ~~ types\n" +
			"one ~.\n\n" +
			"The exit codes are those of `tether run`.",
		Example: "  tether shell --url ssh://build\n" +
			"  TETHER_URL=wss://build:7443 TETHER_TOKEN=… tether shell --cwd /srv/project",
		Args:                  func(cmd *cobra.Command, args []string) error { return failed(noArguments(cmd, args)) },
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.stderr = cmd.ErrOrStderr()
			if !terminal.Is(stdin) || !terminal.Is(stdout) {
				return failed(errors.New("`tether shell` needs a terminal; `tether run -- sh` works without one"))
			}
			return failed(r.run(cmd.Context()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	r.defineCommand(fs)
	r.define(fs, "it is a shell on this machine")
	r.defineKeeping(fs)
	onlyOnce(fs)
	ownFailures(cmd)
	return cmd
}
