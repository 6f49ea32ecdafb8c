//go:build mcp || fleet || !split

package main

import (
	"os"

	"github.com/spf13/cobra"
)

// hostsFlags are the flags of `tether hosts`.
type hostsFlags struct {
	args []string // of the program

	bus           busFlags
	asJSON, watch bool
}

// newHosts is `tether hosts`. Its work is in hosts_inside.go, which only tether-fleet has.
func newHosts(args []string, stdout *os.File) *cobra.Command {
	flags := hostsFlags{args: args}
	cmd := &cobra.Command{
		Use:   nameHosts + " [flags]",
		Short: shortHosts,
		Long: "List the executors of a fleet. A host is reachable, draining (it gets no new sessions), or unreachable:\n" +
			"it has not been heard of for some seconds, and its sessions may come back with it. It is listed for\n" +
			"24 h. RUNNING is how many commands run there, and the capacity of the host. LOAD is that of the machine\n" +
			"in the last minute, for each processor. AGE is the time since the host was last heard of.",
		Example: "  tether hosts --nats nats://127.0.0.1:4222 --creds operator.creds\n" +
			"  tether hosts --watch\n" +
			"  tether hosts drain build-1",
		Args:                  noSuchCommand,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.bus.complete(); err != nil {
				return err
			}
			return flags.run(cmd.Context(), stdout)
		},

		SuggestionsMinimumDistance: 2,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	flags.bus.define(fs, "add-operator")
	fs.BoolVar(&flags.asJSON, "json", false, "print a JSON array; with --watch, a line with one after each change")
	fs.BoolVar(&flags.watch, "watch", false, "print the list again when it changes, until SIGINT")
	onlyOnce(fs)
	cmd.AddCommand(
		newDrain(args, "drain", true, "Let a host get no new sessions",
			"Let a host get no new sessions. Those that it has go on. It stays so, also if the host restarts, until\n`tether hosts undrain`."),
		newDrain(args, "undrain", false, "Let a host get new sessions again", "Let a host that was drained get new sessions again."))
	return cmd
}

// drainFlags are the flags of `tether hosts drain` and undrain.
type drainFlags struct {
	args []string // of the program
	verb string
	bus  busFlags
	host string
	on   bool
}

func newDrain(args []string, verb string, on bool, short, long string) *cobra.Command {
	flags := drainFlags{args: args, verb: verb, on: on}
	cmd := &cobra.Command{
		Use:                   verb + " [flags] NAME",
		Short:                 short,
		Long:                  long,
		Args:                  words("the NAME of a host is missing"),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, words []string) error {
			flags.host = words[0]
			if err := flags.bus.complete(); err != nil {
				return err
			}
			return flags.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	flags.bus.define(fs, "add-operator")
	onlyOnce(fs)
	return cmd
}
