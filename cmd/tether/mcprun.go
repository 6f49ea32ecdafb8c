package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client/mcprelay"
	"github.com/tetherexec/tether/internal/terminal"
)

// An mcpRun is an MCP server on an executor, and our standard input and output for its
// client.
type mcpRun struct {
	mcpExecutor
	env       []string
	remoteEnv []string

	argv          []string
	stdin, stdout *os.File
}

func newMCPRun(stdin, stdout *os.File) *cobra.Command {
	r := mcpRun{mcpExecutor: mcpExecutor{label: "mcp-run"}, stdin: stdin, stdout: stdout}
	cmd := &cobra.Command{
		Use:   "mcp-run [flags] [--] SERVER [ARGUMENT...]",
		Short: "Run an MCP server on another machine for a client on this one",
		Long: "Run a stdio MCP server on the executor and speak for it on standard input and output, so that\n" +
			"any MCP client can start it as if it were here. The client does not notice lost connections. An\n" +
			"executor that cannot be reached yet is tried again with each request. If the session is lost,\n" +
			"requests in flight get an error, and the next one starts the server again, at most 3 times in\n" +
			"60 s. What the server prints on standard error is printed there.\n\n" +
			"The exit code is that of the server, 128+N if signal N ended it or us, and 0 if the client left\n" +
			"and the server had to be ended. Else it is 125 if tether failed or the server broke the protocol,\n" +
			"126 if the server cannot be executed, 127 if it is not found, and 255 if the session with the\n" +
			"executor was lost and the client has left.",
		Example: "  tether mcp-run --url ssh://build --cwd /srv/project -- docs-server --stdio\n" +
			"  tether mcp-run --url unix://t.sock --env API_KEY --remote-env DATABASE_URL -- npx -y some-server",
		Args:                  needCommand,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.argv, r.stderr = args, cmd.ErrOrStderr()
			return failed(r.run(cmd.Context()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.SetInterspersed(false) // what follows the server is the server's
	fs.StringVar(&r.cwd, "cwd", "", "`DIR` to start in (default: here, or the executor's own)")
	fs.StringArrayVarP(&r.env, "env", "e", nil, "set a variable of the environment, as `NAME[=VALUE]`; without a value\nit is ours; can be repeated")
	fs.StringArrayVar(&r.remoteEnv, "remote-env", nil, "let the server have the executor's variable of this `NAME`, besides\nPATH, HOME and their like; can be repeated")
	group(fs, "Command", "cwd", "env", "remote-env")
	r.define(fs, "the MCP server runs on this machine", "the server")
	onlyOnce(fs)
	ownFailures(cmd)
	return cmd
}

func (r *mcpRun) run(ctx context.Context) error {
	env, err := chosenVariables(r.env)
	if err != nil {
		return err
	}
	return r.use(ctx, func(ctx context.Context) error {
		return r.relay(ctx, mcprelay.Command{Argv: r.argv, Env: env, RemoteEnv: r.remoteEnv})
	})
}

// relay starts the server and speaks for it until it, or its client, has left.
func (r *mcpRun) relay(ctx context.Context, command mcprelay.Command) error {
	var once sync.Once
	server := mcprelay.Server{
		Client: r.client, Command: command, Dir: r.dir, Lazy: r.isRemote(),
		Stderr: func(line []byte) { fmt.Fprintf(r.stderr, "%s\n", line) },
		NotMessage: func(number int, line []byte) {
			once.Do(func() { fmt.Fprintln(r.stderr, notMessageText(r.argv[0], number, line)) })
		},
	}
	if !r.quiet {
		server.Log = slog.New(noteLog{r.stderr})
	}
	pump, err := server.Open(ctx)
	if err != nil {
		return remoteStartFailure(r.argv[0], err)
	}
	defer pump.Close()
	switch err := pump.Relay(ctx, r.stdin, r.stdout); {
	case errors.Is(err, io.EOF):
		if n := pump.InFlight(); n > 0 {
			fmt.Fprintf(r.stderr, "tether: %s has ended with exit code %d and left %s without an answer\n", terminal.Name(r.argv[0]), pump.Exit().Code, terminal.Plural(n, "request"))
		}
		return ofCommand(pump.Exit().Code)
	case errors.Is(err, mcprelay.ErrLeft):
		return nil
	default:
		return err
	}
}

// notMessageShown is how many bytes are shown of a line that is no message.
const notMessageShown = 120

// notMessageText says that a server has printed something else than MCP, and what to do
// about it.
func notMessageText(server string, number int, line []byte) string {
	shown, more := line, ""
	if n := notMessageShown; len(line) > n {
		for n > 0 && !utf8.RuneStart(line[n]) {
			n--
		}
		shown, more = line[:n], "…"
	}
	return fmt.Sprintf("tether: line %d of the standard output of %s is not a JSON-RPC message: %q%s\n"+
		"tether: an MCP server prints nothing else there; check its flags (some servers need --stdio), and that it logs to standard error",
		number, terminal.Name(server), shown, more)
}
