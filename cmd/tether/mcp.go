//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/sandboxhost"
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
	mcpExecutor
	sandbox     string
	network     bool
	hosts       hostFlags
	remember    string // the file of hosts that are allowed for good; empty: the usual one
	noLogin     bool
	approval    choice
	listen      string
	listenToken string

	args          []string // of the program
	stdin, stdout *os.File
}

func newMCP(args []string, stdin, stdout *os.File) *cobra.Command {
	m := mcpServe{mcpExecutor: mcpExecutor{label: "mcp"}, args: args, stdin: stdin, stdout: stdout}
	m.reports = true // the model gets the errors; the user gets each once
	cmd := &cobra.Command{
		Use:   nameMCP + " [flags]",
		Short: shortMCP,
		Long: "Serve MCP with the tools exec_command, write_stdin, kill_session, list_sessions, search_output,\n" +
			"read_file, write_file and list_dir. Commands and files are confined by a sandbox. If a command\n" +
			"needs more, the user of the MCP client is asked, if the client supports elicitation. Commands end\n" +
			"with the MCP session and survive lost connections to the executor. If the executor cannot be\n" +
			"reached yet, each request tries again.\n\n" +
			"On standard input and output the server ends with its input. With --listen http://IP:PORT the\n" +
			"first line on standard output is the URL of the MCP server, and SIGINT and SIGTERM end it.",
		Example: "  tether mcp\n" +
			"  tether mcp --url ssh://build --cwd /srv/project\n" +
			"  tether mcp --sandbox read-only --approval never --listen http://127.0.0.1:7450",
		Args:                  func(cmd *cobra.Command, args []string) error { return failed(noArguments(cmd, args)) },
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
	fs.StringVar(&m.sandbox, "sandbox", sandboxhost.ProfileWorkspaceWrite, "a `PROFILE` that says what commands may do: read-only,\nworkspace-write, full (no sandbox), or a JSON file, as for\n`tether sandbox run`")
	fs.BoolVar(&m.network, "network", false, "allow the network in the sandbox")
	m.hosts.define(fs)
	fs.StringVar(&m.remember, "remember-hosts", "", "`FILE` with more hosts for --allow-host, to which those are added\nthat the user allows for good; none: no file\n(default: allowed-hosts in the directory of the configuration file)")
	m.machine.define(fs)
	fs.BoolVar(&m.noLogin, "no-login", false, "run commands in a shell that is not a login shell, unless a call asks\nfor one")
	fs.Var(&m.approval, "approval", "when to ask the user for more permissions: never, on-request (when\nthe model asks for it), or granular (also when the sandbox has\nstopped a command)")
	group(fs, "Commands", "cwd", "sandbox", "network", "allow-host", "deny-host", "remember-hosts", userSockets, sandboxBackend, "no-login", "approval")
	fs.StringVar(&m.listen, "listen", listenStdio, "`URL` to serve on: stdio:// for one client on standard input and\noutput, or http://IP:PORT for many clients")
	fs.StringVar(&m.listenToken, "listen-token-file", "", "`PATH` of a file with the bearer token that HTTP clients must send;\nneeded for addresses that other machines can reach")
	group(fs, "Where to listen", "listen", "listen-token-file")
	m.limits.define(fs)
	m.define(fs, "commands run on this machine", "the commands")
	onlyOnce(fs)
	ownFailures(cmd)
	return cmd
}

func (m *mcpServe) run(ctx context.Context) error {
	if _, named, _ := m.address(); named {
		if flag, given := m.machine.given(); given {
			return serverFlagError(flag)
		}
	}
	sandbox, err := m.intent()
	if err != nil {
		return err
	}
	network, err := m.reach(sandbox)
	if err != nil {
		return err
	}
	return m.handle(ctx, sandbox, network)
}

// intent returns the sandbox without the workspace, which is on the executor.
func (m *mcpServe) intent() (s *wire.Sandbox, err error) {
	switch m.sandbox {
	case sandboxhost.ProfileFull:
		return nil, nil
	case sandboxhost.ProfileReadOnly:
		s = unifiedexec.ReadOnly()
	case sandboxhost.ProfileWorkspaceWrite:
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

// reach returns the hosts that commands in the sandbox may reach, or nil if the sandbox alone decides.
func (m *mcpServe) reach(sandbox *wire.Sandbox) (*client.Network, error) {
	rules, err := m.hosts.rules(m.network)
	switch {
	case err != nil:
		return nil, err
	case rules == nil && m.remember != "":
		return nil, usageError{errors.New("--remember-hosts needs --allow-host")}
	case rules == nil:
		return nil, nil
	case sandbox == nil || sandbox.Disabled():
		return nil, usageError{errors.New("--allow-host needs a sandbox: without one, commands reach every host")}
	}
	return &client.Network{Allow: m.hosts.allow, Deny: m.hosts.deny}, nil
}
