//go:build mcp || fleet || !split

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/listen"
)

// gatewayFlags are the flags of `tether gateway`.
type gatewayFlags struct {
	args []string // of the program

	bus    busFlags
	listen listenFlags
	door   consoleFlags
	window byteSize // 0: not given
	log    logFlags
	file   configFlags
}

// newGateway is `tether gateway`. Its work is in gateway_inside.go, which only tether-fleet has.
func newGateway(args []string, stdout *os.File) *cobra.Command {
	flags := gatewayFlags{args: args}
	cmd := &cobra.Command{
		Use:   nameGateway + " --nats URL --creds FILE [flags]",
		Short: shortGateway,
		Long: "Serve clients with the executors of a fleet, as if the gateway were one large server. A new session\n" +
			"goes to the least loaded host that fits: any, the one in ?host=NAME, or one that has all the labels in\n" +
			"?label=KEY=VALUE&label=KEY. A client finds its session again through any gateway of the fleet.\n\n" +
			"The first and only line on standard output is the URL to connect to. SIGINT and SIGTERM end the\n" +
			"gateway; clients reconnect through another one, and commands run on.",
		Example: "  tether gateway --nats nats://127.0.0.1:4222 --creds gateway.creds\n" +
			"  tether gateway --nats tls://hub:4222 --creds gateway.creds --listen wss://0.0.0.0:7443 \\\n" +
			"      --tls-cert cert.pem --tls-key key.pem --ws-auth capability-token --ws-token-file token\n" +
			"  tether run --url 'wss://gateway:7443/?label=gpu' -- nvidia-smi",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.file.apply(cmd, nameGateway); err != nil {
				return err
			}
			if err := flags.bus.complete(); err != nil {
				return err
			}
			return flags.run(cmd, stdout)
		},
	}
	flags.define(cmd)
	return cmd
}

func (f *gatewayFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	f.bus.define(fs, "add-gateway")
	fs.StringVar(&f.listen.cfg.URL, "listen", listen.DefaultURL, "`URL` to listen on: ws://IP:PORT, wss://IP:PORT or unix://PATH")
	group(fs, "Where to listen", "listen")
	f.listen.define(fs)
	f.listen.auth.oidc.define(fs)
	f.door.define(fs)
	fs.Var(&f.window, "window", "how much a session may have in flight in each direction between the\ngateway and its host (default 1MiB)")
	f.log.define(fs, "warn")
	onlyOnce(fs)
	f.file.define(fs)
}
