package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/bridge"
	"github.com/tetherexec/tether/internal/homeserver"
	"github.com/tetherexec/tether/internal/proc"
)

func newBridge(stdin, stdout *os.File) *cobra.Command {
	var options homeserver.Options
	idle := lifetime(homeserver.DefaultIdleExit)
	cmd := &cobra.Command{
		Use:   "bridge [flags]",
		Short: "Connect standard input and output to a server in the background",
		Long: "Connect standard input and output, one message per line, to this user's server. The server is\n" +
			"started if it does not run, and outlives the bridge: when the bridge ends, clients can resume\n" +
			"their sessions over another one. Meant to be run by ssh.",
		Example:               "  ssh HOST tether bridge",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.IdleExit = time.Duration(idle)
			if err := proc.ResetInherited(); err != nil { // a server that is started must not inherit our descriptors
				return fmt.Errorf("prepare for a server: %w", err)
			}
			defer brokenPipeIsError()() // EPIPE means that the client has left
			return bridge.Run(cmd.Context(), options, stdin, stdout)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&options.Socket, "socket", "", "`PATH` of the server's socket (default $XDG_RUNTIME_DIR/tether/server.sock,\nif it survives a logout, else one below the state directory)")
	fs.BoolVar(&options.NoStart, "no-start", false, "do not start a server")
	fs.Var(&idle, "idle-exit", "how long a server that this starts runs without clients and sessions")
	onlyOnce(fs)
	return cmd
}
