//go:build mcp || fleet || !split

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// hubFlags are the flags of `tether hub`.
type hubFlags struct {
	args []string // of the program

	listen, webSocket   string
	tlsCert, tlsKey     string
	name, clusterListen string
	peers               []string
	storeLimit          byteSize
	stateDir            string
	metrics, monitor    string
	log                 logFlags
	file                configFlags
}

// defaultHubListen is the port that NATS clients expect, on this machine only.
const defaultHubListen = "nats://127.0.0.1:4222"

// newHub is `tether hub`. Its work is in hub_inside.go, which only tether-fleet has.
func newHub(args []string, stdout *os.File) *cobra.Command {
	flags := hubFlags{args: args}
	cmd := &cobra.Command{
		Use:   nameHub + " [flags]",
		Short: shortHub,
		Long: "Run the hub of a fleet. Executors (`tether serve --join`) and gateways (`tether gateway`) connect to\n" +
			"it, each with credentials that the hub has made for it. The hub passes their messages on and keeps\n" +
			"the directory of hosts and sessions; it stores no output.\n\n" +
			"The first and only line on standard output is the URL to connect to. SIGINT and SIGTERM end the\n" +
			"hub. Meanwhile commands run on, and clients of gateways wait.\n\n" +
			"add-host, add-gateway and add-operator make credentials. They need only the state directory of the\n" +
			"hub, which may be running.",
		Example: "  tether hub\n" +
			"  tether hub add-host build-1 --out build-1.creds\n" +
			"  tether hub --listen tls://0.0.0.0:4222 --tls-cert cert.pem --tls-key key.pem",
		Args:                  noSuchCommand,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.file.apply(cmd, nameHub); err != nil {
				return err
			}
			if (flags.tlsCert == "") != (flags.tlsKey == "") {
				return usageError{errors.New("--tls-cert and --tls-key must be given together")}
			}
			return flags.run(cmd.Context(), stdout, cmd.ErrOrStderr())
		},

		SuggestionsMinimumDistance: 2,
	}
	flags.define(cmd.Flags())
	onlyOnce(cmd.Flags())
	flags.file.define(cmd.Flags())
	for _, role := range []struct{ name, verb, short, who, does string }{
		{"host", "add-host", "Make the credentials of an executor", "an executor, which joins with `tether serve --join`",
			"It can serve\nunder this name only."},
		{"gateway", "add-gateway", "Make the credentials of a gateway", "a gateway, which runs with `tether gateway`",
			"It can use every\nhost and every session of the fleet: keep the file secret."},
		{"operator", "add-operator", "Make the credentials of an operator", "an operator, for `tether hosts`",
			"It can list and\ndrain hosts, and must be trusted as a gateway is: keep the file secret."},
	} {
		cmd.AddCommand(newHubAdd(args, role.name, role.verb, role.short, role.who, role.does, stdout))
	}
	cmd.AddCommand(newHubRevoke(args))
	return cmd
}

func (f *hubFlags) define(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringVar(&f.listen, "listen", defaultHubListen, "`URL` to listen on: tls://IP:PORT, or nats://127.0.0.1:PORT for this\nmachine only")
	fs.StringVar(&f.webSocket, "websocket", "", "a second `URL` to listen on, for machines that only reach web\nservers: wss://IP:PORT, or ws://127.0.0.1:PORT")
	fs.StringVar(&f.tlsCert, "tls-cert", "", "`PATH` of the hub's certificate and chain (PEM)")
	fs.StringVar(&f.tlsKey, "tls-key", "", "`PATH` of its private key (PEM)")
	fs.StringVar(&f.metrics, "metrics", "", "`IP:PORT` for the pages /metrics (Prometheus), /healthz and\n/readyz: over HTTPS with --tls-cert, else over HTTP and only on this machine")
	fs.StringVar(&f.monitor, "monitor", "", "`IP:PORT` of this machine for the pages of NATS about itself, over HTTP")
	group(fs, "Where to listen", "listen", "websocket", "tls-cert", "tls-key", "metrics", "monitor")
	fs.StringVar(&f.name, "name", "", "`NAME` of this hub among its peers (default: the name of this machine)")
	fs.StringVar(&f.clusterListen, "cluster-listen", "", "`IP:PORT` where the other hubs of a cluster connect, always with TLS")
	fs.StringArrayVar(&f.peers, "peer", nil, "`HOST:PORT` where another hub of the cluster listens for hubs; can be\nrepeated. A cluster of three hubs survives the loss of one. All of\nthem need a copy of the directory keys in the state directory")
	group(fs, "Cluster", "name", "cluster-listen", "peer")
	defineHubDir(fs, &f.stateDir)
	fs.Var(&f.storeLimit, "store-limit", "how much disk the directory of the fleet may use (default 1GiB)")
	group(fs, "State", "state-dir", "store-limit")
	f.log.define(fs, "warn")
}

func defineHubDir(fs *pflag.FlagSet, dir *string) {
	fs.StringVar(dir, "state-dir", "", "`PATH` of the hub's keys and store\n(default $XDG_STATE_HOME/tether/hub or ~/.local/state/tether/hub)")
}

// hubAdd makes credentials.
type hubAdd struct {
	args           []string // of the program
	role, name     string
	stateDir, file string
	force          bool
}

func newHubAdd(args []string, role, verb, short, who, does string, stdout *os.File) *cobra.Command {
	a := hubAdd{args: args, role: role}
	cmd := &cobra.Command{
		Use:   verb + " [flags] NAME",
		Short: short,
		Long: "Make the credentials of " + who + ", and print them or write\n" +
			"them to a file that only you can read. " + does + "\n\n" +
			"NAME has up to 63 lower-case letters, digits and hyphens. If credentials are made again, the earlier ones\n" +
			"stay valid until `tether hub revoke`.",
		Example:               "  tether hub " + verb + " NAME --out NAME.creds",
		Args:                  words("the NAME is missing"),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, words []string) error {
			a.name = words[0]
			return a.run(stdout)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&a.file, "out", "", "`FILE` to write, instead of standard output")
	fs.BoolVarP(&a.force, "force", "f", false, "replace a file that exists")
	defineHubDir(fs, &a.stateDir)
	onlyOnce(fs)
	return cmd
}

// hubRevoke makes credentials invalid.
type hubRevoke struct {
	args       []string // of the program
	role, name string
	stateDir   string
}

func newHubRevoke(args []string) *cobra.Command {
	r := hubRevoke{args: args}
	cmd := &cobra.Command{
		Use:   "revoke [flags] KIND NAME",
		Short: "Make credentials invalid",
		Long: "Make all credentials invalid that were made for a name. KIND is host, gateway or operator. A hub that\n" +
			"runs ends the connections with them. New credentials for the name can be made.",
		Example:               "  tether hub revoke host build-1",
		Args:                  words("the KIND is missing: host, gateway or operator", "the NAME is missing"),
		DisableFlagsInUseLine: true,
		ValidArgs:             []string{"host", "gateway", "operator"},
		RunE: func(cmd *cobra.Command, words []string) error {
			if r.role, r.name = words[0], words[1]; !strings.Contains(" host gateway operator ", " "+r.role+" ") {
				return usageError{fmt.Errorf("unknown kind %q: expected host, gateway or operator", r.role)}
			}
			return r.run(cmd.OutOrStdout())
		},
	}
	defineHubDir(cmd.Flags(), &r.stateDir)
	onlyOnce(cmd.Flags())
	return cmd
}

// words requires one argument for each text, which tells that it is missing.
func words(missing ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(missing):
			return usageError{errors.New(missing[len(args)])}
		case len(args) > len(missing):
			return usageError{fmt.Errorf("unexpected argument %q", args[len(missing)])}
		}
		return nil
	}
}
