//go:build mcp || fleet || !split

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

// An mcpRun is an MCP server on an executor; its client is on our standard input and output.
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
		Use:   nameMCPRun + " [flags] [--] SERVER [ARGUMENT...]",
		Short: shortMCPRun,
		Long: "Run a stdio MCP server on the executor and pass on its messages, so that any MCP client can start\n" +
			"it as if it were on this machine. The client does not notice lost connections. If the executor\n" +
			"cannot be reached yet, each request tries again. If the session is lost, unanswered requests get\n" +
			"an error, and the next one starts the server again, at most 3 times in 60 s. The standard error of\n" +
			"the server is passed on.\n\n" +
			"The exit code is that of the server, 128+N if signal N ended it or mcp-run, and 0 if the client\n" +
			"closed standard input and mcp-run ended the server. Else it is 125 if tether failed or the server\n" +
			"broke the protocol, 126 if the server cannot be executed, 127 if it is not found, and 255 if the\n" +
			"session with the executor was lost after the client had closed standard input.",
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
	fs.SetInterspersed(false) // flags behind the server belong to it
	fs.StringVar(&r.cwd, "cwd", "", "`DIR` to start in (default: here, or the executor's own)")
	fs.StringArrayVarP(&r.env, "env", "e", nil, "set a variable of the environment, as `NAME[=VALUE]`; without a value\nit has the local value; can be repeated")
	fs.StringArrayVar(&r.remoteEnv, "remote-env", nil, "pass the executor's variable of this `NAME` to the server, besides\nPATH, HOME and other basic ones; can be repeated")
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

// relay starts the server and passes on messages until the server ends or its client has left.
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

// notMessageShown is how many bytes are shown of a line that is not a message.
const notMessageShown = 120

// notMessageText says that a server has printed a line that is not MCP, and what to do about it.
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
