package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/mcptransport"
)

// An mcpRun is an MCP server on an executor, and our standard input and output for its
// client.
type mcpRun struct {
	serverFlags
	cwd       string
	env       []string
	remoteEnv []string
	keep      lifetime

	argv          []string
	stdin, stdout *os.File
	stderr        io.Writer

	mu   sync.Mutex
	conn *connection // the newest
}

func newMCPRun(stdin, stdout *os.File) *cobra.Command {
	r := mcpRun{stdin: stdin, stdout: stdout}
	cmd := &cobra.Command{
		Use:   "mcp-run [flags] [--] SERVER [ARGUMENT...]",
		Short: "Run an MCP server on another machine for a client on this one",
		Long: "Run a stdio MCP server on the executor and speak for it on standard input and output, so that\n" +
			"any MCP client can start it as if it were here. The client does not notice lost connections. If\n" +
			"the session is lost, requests in flight get an error, and the next one starts the server again,\n" +
			"at most 3 times in 60 s. What the server prints on standard error is printed there.\n\n" +
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
	r.define(fs, "the MCP server runs on this machine")
	fs.Var(&r.keep, "keep", "how long the executor is asked to keep the server while there is no\nconnection (default 10m)")
	group(fs, "Server", "keep")
	onlyOnce(fs)
	ownFailures(cmd)
	return cmd
}

func (r *mcpRun) run(ctx context.Context) (err error) {
	env, err := chosenVariables(r.env)
	if err != nil {
		return err
	}
	broken := make(chan os.Signal, 1) // a closed output is a client that has left
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer r.onSignal(cancel)()
	defer func() {
		if cerr := r.leave(); err == nil {
			err = cerr
		}
	}()

	conn, err := r.session(ctx)
	if err != nil {
		return orSignal(ctx, err)
	}
	dir, err := (&launch{cwd: r.cwd}).dir(conn)
	if err != nil {
		return err
	}
	transport := mcptransport.Transport{
		Client:  r.executor,
		Command: mcptransport.Command{Argv: r.argv, Dir: dir, Env: env, RemoteEnv: r.remoteEnv},
		Stderr:  func(line []byte) { fmt.Fprintf(r.stderr, "%s\n", line) },
	}
	if !r.quiet {
		transport.Log = slog.New(slog.NewTextHandler(r.stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	pump, err := transport.Open(ctx)
	if err != nil {
		return orSignal(ctx, remoteStartFailure(r.argv[0], err))
	}
	defer pump.Close()
	switch err := pump.Relay(ctx, r.stdin, r.stdout); {
	case errors.Is(err, io.EOF):
		return ofCommand(pump.Exit().Code)
	case errors.Is(err, mcptransport.ErrLeft):
		return nil
	default:
		return orSignal(ctx, err)
	}
}

// A caught is a signal that ends us.
type caught struct{ syscall.Signal }

func (c caught) Error() string { return c.String() }

// onSignal ends the context with the first signal. The returned function undoes that.
func (r *mcpRun) onSignal(cancel context.CancelCauseFunc) func() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, passedOn...)
	done, watching := make(chan struct{}), sync.WaitGroup{}
	watching.Go(func() {
		select {
		case s := <-signals:
			if number, ok := s.(syscall.Signal); ok {
				cancel(caught{number})
			}
		case <-done:
		}
	})
	return func() {
		signal.Stop(signals)
		close(done)
		watching.Wait()
	}
}

// orSignal is the exit code of a signal, if one was the reason.
func orSignal(ctx context.Context, err error) error {
	if c, ok := errors.AsType[caught](context.Cause(ctx)); ok {
		return codedError{code: exitSignal + int(c.Signal)}
	}
	return err
}

// executor returns the session for the server, and another one when that is lost.
func (r *mcpRun) executor(ctx context.Context) (*client.Client, error) {
	conn, err := r.session(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}

func (r *mcpRun) session(ctx context.Context) (*connection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		if r.conn.Status().State != client.Failed {
			return r.conn, nil
		}
		r.conn.end()
		r.conn = nil
	}
	o := client.Options{TTL: keepAttended, Label: "mcp-run"}
	if r.keep > 0 {
		o.TTL = time.Duration(r.keep)
	}
	conn, err := r.dial(ctx, newStatusLine(r.stderr, r.quiet), o, embeddedServer)
	if err == nil {
		r.conn = conn
	}
	return conn, err
}

// leave ends the session, and with it the server.
func (r *mcpRun) leave() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil {
		return nil
	}
	return r.conn.end()
}
