//go:build mcp || fleet || !split

package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// chaosFlags are the flags of `tether chaos`. The cable is in tether-mcp: chaos_inside.go is for that
// program, chaos_outside.go for tether, which starts it.
type chaosFlags struct {
	args                            []string // of the program
	target, listen                  string
	seed                            uint64
	ca, trace                       string
	cutEvery, freezeEvery, runFor   lifetime // 0: not given
	cutFor, freezeFor, holdFor      lifetime
	latency, jitter                 lifetime
	rate                            byteSize
	drop, duplicate, hold, cutAfter []string
}

func newChaos(args []string, stdout *os.File) *cobra.Command {
	flags := chaosFlags{args: args}
	cmd := &cobra.Command{
		Use:   nameChaos + " --target URL [flags]",
		Short: shortChaos,
		Long: "Put a bad network between a client and a server of this protocol, to test them: connections that\n" +
			"are cut, silent or slow, and messages that are lost, doubled or late.\n\n" +
			"The first line on standard output is the URL that the client should use. Standard error shows what\n" +
			"happens, with a summary at the end. SIGINT and SIGTERM end it.\n\n" +
			"MESSAGE is the method of a request or notification, such as process/output; or answer:METHOD for\n" +
			"the answers to a request. The fault hits every such message; with :N at the end only the Nth, and\n" +
			"with :P% each one with that probability.",
		Example: "  tether chaos --target ws://127.0.0.1:7000 --cut-every 3s\n" +
			"  tether chaos --target ws://127.0.0.1:7000 --latency 80ms --jitter 20ms --rate 1MiB\n" +
			"  tether chaos --target unix:///run/user/1000/tether.sock --drop process/output:1% \\\n" +
			"      --cut-after answer:process/start:1 --trace trace.jsonl --for 1m",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.target == "" {
				return usageError{errors.New("--target is missing")}
			}
			if !cmd.Flags().Changed("seed") {
				flags.seed = rand.Uint64N(1 << 32) // short enough to type again
			}
			return flags.run(cmd.Context(), stdout, cmd.ErrOrStderr())
		},
	}
	flags.define(cmd)
	return cmd
}

func (f *chaosFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.target, "target", "", "`URL` of the server: ws://HOST:PORT, wss://HOST:PORT or unix://PATH")
	fs.StringVar(&f.listen, "listen", "ws://127.0.0.1:0", "`URL` to listen on: ws://IP:PORT of this machine only, or unix://PATH")
	fs.StringVar(&f.ca, "tls-ca", "", "`PATH` of certificates (PEM) to trust for a wss:// target, instead\nof those of this machine")
	group(fs, "Client and server", "target", "listen", "tls-ca")

	f.cutFor, f.freezeFor = lifetime(500*time.Millisecond), lifetime(time.Second)
	fs.Var(&f.cutEvery, "cut-every", "end all connections this often")
	fs.Var(&f.cutFor, "cut-for", "after a cut, refuse new connections for this long")
	fs.Var(&f.freezeEvery, "freeze-every", "deliver nothing for a while, this often, without ending connections")
	fs.Var(&f.freezeFor, "freeze-for", "how long a freeze lasts")
	fs.Var(&f.latency, "latency", "deliver everything this much later, in each direction")
	fs.Var(&f.jitter, "jitter", "vary the latency by up to this much, more or less")
	fs.Var(&f.rate, "rate", "bytes per second in each direction of a connection")
	group(fs, "Faults of connections", "cut-every", "cut-for", "freeze-every", "freeze-for", "latency", "jitter", "rate")

	f.holdFor = lifetime(time.Second)
	fs.StringArrayVar(&f.drop, "drop", nil, "lose `MESSAGE`; --drop, --duplicate, --hold and --cut-after can be\nrepeated")
	fs.StringArrayVar(&f.duplicate, "duplicate", nil, "deliver `MESSAGE` twice")
	fs.StringArrayVar(&f.hold, "hold", nil, "delay `MESSAGE` while others pass")
	fs.Var(&f.holdFor, "hold-for", "how long --hold delays a message")
	fs.StringArrayVar(&f.cutAfter, "cut-after", nil, "end the connection right after `MESSAGE` was delivered")
	group(fs, "Faults of messages", "drop", "duplicate", "hold", "hold-for", "cut-after")

	fs.Uint64Var(&f.seed, "seed", 0, "`NUMBER` that repeats the random choices of an earlier run")
	fs.Var(&f.runFor, "for", "end after this long")
	fs.StringVar(&f.trace, "trace", "", "`PATH` to write every message to, one JSON object per line; it has all\ninput and output, so only you can read it")
	group(fs, "Run", "seed", "for", "trace")
	onlyOnce(fs)
}
