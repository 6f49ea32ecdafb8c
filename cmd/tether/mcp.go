package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/mcpserver"
	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/wire"
)

// The values of --approval.
const (
	approvalNever     = "never"
	approvalOnRequest = "on-request"
	approvalGranular  = "granular"
)

// listenStdio is the default of --listen.
const listenStdio = "stdio://"

// An mcpServe is an MCP server with an executor behind it.
type mcpServe struct {
	serverFlags
	cwd         string
	sandbox     string
	network     bool
	approval    choice
	keep        lifetime
	listen      string
	listenToken string

	stdin, stdout *os.File
	stderr        io.Writer

	mu   sync.Mutex
	conn *connection // the newest
}

func newMCP(stdin, stdout *os.File) *cobra.Command {
	m := mcpServe{stdin: stdin, stdout: stdout}
	cmd := &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Give an MCP client commands and files, here or on another machine",
		Long: "Serve MCP with the tools exec_command, write_stdin, kill_session, list_sessions, search_output,\n" +
			"read_file, write_file and list_dir. Commands and files are confined by a sandbox; when it is in\n" +
			"the way, the user of the MCP client is asked, if that has elicitation. Commands end with the MCP\n" +
			"session. Lost connections to the executor are not noticed.\n\n" +
			"On standard input and output the server ends with its input. With --listen http://IP:PORT the\n" +
			"first line on standard output is the URL of the MCP server, and SIGINT and SIGTERM end it.",
		Example: "  tether mcp\n" +
			"  tether mcp --url ssh://build --cwd /srv/project\n" +
			"  tether mcp --sandbox read-only --approval never --listen http://127.0.0.1:7450",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.stderr = cmd.ErrOrStderr()
			return failed(m.run(cmd.Context()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	m.approval = choice{approvalGranular, "WHEN", []string{approvalNever, approvalOnRequest, approvalGranular}}
	fs.StringVar(&m.cwd, "cwd", "", "`DIR` where commands start, and the workspace of the sandbox\n(default: here, or the executor's own)")
	fs.StringVar(&m.sandbox, "sandbox", profileWorkspaceWrite, "a `PROFILE` that says what commands may do: read-only, workspace-write,\nfull (no sandbox), or a JSON file, as for `tether sandbox run`")
	fs.BoolVar(&m.network, "network", false, "allow the network in the sandbox")
	fs.Var(&m.approval, "approval", "when the user is asked to allow more: never, on-request (when the model\nwants that), or granular (also when the sandbox has stopped a command)")
	group(fs, "Commands", "cwd", "sandbox", "network", "approval")
	fs.StringVar(&m.listen, "listen", listenStdio, "`URL` to serve on: stdio:// for one client on standard input and\noutput, or http://IP:PORT for any number")
	fs.StringVar(&m.listenToken, "listen-token-file", "", "`PATH` of a file with the bearer token that HTTP clients must send;\nneeded for addresses that other machines can reach")
	group(fs, "Where to listen", "listen", "listen-token-file")
	m.define(fs, "commands run on this machine")
	fs.Var(&m.keep, "keep", "how long the executor is asked to keep the commands while there is no\nconnection (default 10m)")
	group(fs, "Server", "keep")
	onlyOnce(fs)
	ownFailures(cmd)
	return cmd
}

func (m *mcpServe) run(ctx context.Context) (err error) {
	sandbox, err := m.intent()
	if err != nil {
		return err
	}
	listener, err := m.open(ctx)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}
	broken := make(chan os.Signal, 1) // a closed output is a client that has left
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer (&mcpRun{}).onSignal(cancel)()
	defer func() {
		if cerr := m.leave(); err == nil {
			err = cerr
		}
	}()

	conn, err := m.session(ctx)
	if err != nil {
		return orSignal(ctx, err)
	}
	dir, err := (&launch{cwd: m.cwd}).dir(conn)
	if err != nil {
		return err
	}
	s, err := mcpserver.New(mcpserver.Config{
		Client: m.executor, Local: conn.place == inProcess, Cwd: dir, Sandbox: sandbox, Policy: m.policy(), Version: versionText(),
	})
	if err != nil {
		return err
	}
	defer s.Close()
	if listener == nil {
		return orSignal(ctx, s.Serve(ctx, m.stdin, m.stdout))
	}
	if _, err := fmt.Fprintln(m.stdout, listener.URL); err != nil {
		return err
	}
	return s.ServeHTTP(ctx, listener) // a signal is how it ends
}

// open opens the address for clients; nil: they are on standard input and output.
func (m *mcpServe) open(ctx context.Context) (*mcpserver.Listener, error) {
	if m.listen == listenStdio {
		if m.listenToken != "" {
			return nil, usageError{errors.New("--listen-token-file is for --listen http://IP:PORT")}
		}
		return nil, nil
	}
	token := ""
	if m.listenToken != "" {
		var err error
		if token, err = readToken("--listen-token-file", m.listenToken); err != nil {
			return nil, err
		}
	}
	l, err := mcpserver.Listen(ctx, m.listen, token)
	if err != nil {
		return nil, usageError{fmt.Errorf("--listen: %w", err)}
	}
	return l, nil
}

// readToken reads a token from the file that a flag has named.
func readToken(flag, name string) (string, error) {
	token, err := (&serverFlags{tokenFile: name}).token()
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, errors.Unwrap(err))
	}
	return token, nil
}

// intent is the sandbox, without the workspace, which is the executor's matter.
func (m *mcpServe) intent() (s *wire.Sandbox, err error) {
	switch m.sandbox {
	case profileFull:
		return nil, nil
	case profileReadOnly:
		s = unifiedexec.ReadOnly()
	case profileWorkspaceWrite:
		s = unifiedexec.WorkspaceWrite()
	default:
		if s, err = readProfile(m.sandbox, "--sandbox", unifiedexec.ReadOnly()); err != nil {
			return nil, err
		}
	}
	if m.network && !s.Disabled() {
		s.Permissions.Network = wire.NetworkEnabled
	}
	return s, nil
}

func (m *mcpServe) policy() unifiedexec.Policy {
	switch m.approval.value {
	case approvalNever:
		return unifiedexec.Policy{}
	case approvalOnRequest:
		return unifiedexec.Policy{Mode: unifiedexec.OnRequest}
	}
	return unifiedexec.Policy{Mode: unifiedexec.Granular, SandboxApproval: true, Rules: true}
}

// executor returns the session for commands, and another one when that is lost.
func (m *mcpServe) executor(ctx context.Context) (*client.Client, error) {
	conn, err := m.session(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}

func (m *mcpServe) session(ctx context.Context) (*connection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		if m.conn.Status().State != client.Failed {
			return m.conn, nil
		}
		m.conn.end()
		m.conn = nil
	}
	o := client.Options{TTL: keepAttended, Label: "mcp"}
	if m.keep > 0 {
		o.TTL = time.Duration(m.keep)
	}
	conn, err := m.dial(ctx, newStatusLine(m.stderr, m.quiet), o, embeddedServer)
	if err == nil {
		m.conn = conn
	}
	return conn, err
}

// leave ends the session with the executor, and all that runs in it.
func (m *mcpServe) leave() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		return nil
	}
	return m.conn.end()
}
