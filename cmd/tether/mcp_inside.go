//go:build mcp

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/mcpserver"
	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/sandboxhost"
	"github.com/tetherexec/tether/internal/settings"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/wire"
)

// rememberNone is the --remember-hosts for no file.
const rememberNone = "none"

// handle serves MCP clients in this program, which was built with -tags mcp.
func (m *mcpServe) handle(ctx context.Context, sandbox *wire.Sandbox, network *client.Network) error {
	listener, err := m.open(ctx)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}
	dir, err := m.workspace()
	if err != nil {
		return err
	}
	keepHost, err := m.remembered(network, dir)
	if err != nil {
		return err
	}
	return m.use(ctx, func(ctx context.Context) error {
		s, err := mcpserver.New(mcpserver.Config{
			Client: m.client, Local: !m.isRemote(), Where: m.where(), Cwd: dir, Sandbox: sandbox, Network: network, KeepHost: keepHost,
			Limits: m.limits.limits(), Policy: m.policy(), NoLogin: m.noLogin, Version: versionText(),
		})
		if err != nil {
			return err
		}
		defer s.Close()
		return m.serve(ctx, s, listener)
	})
}

// remembered adds the hosts that the user has allowed for good to a network, and returns the function that remembers further
// ones. It returns nil if nothing is remembered: without rules about hosts, with --remember-hosts none, or if commands could
// change the file.
func (m *mcpServe) remembered(network *client.Network, dir string) (keep func(host string) error, err error) {
	if network == nil || m.remember == rememberNone {
		return nil, nil
	}
	file := settings.HostsFile{Path: m.remember}
	if m.remember == "" {
		if file, err = settings.UserHosts(); err != nil {
			return nil, nil // the user has no directory of configuration
		}
		if !m.isRemote() && m.mayWrite(file, dir) {
			terminal.NewStatusLine(m.stderr, m.quiet).Note("hosts are allowed for this session at most: commands may be able to change " + file.Path + "; --remember-hosts names another file")
			return nil, nil
		}
	}
	patterns, err := file.Read(func(pattern string) error { return netpolicy.CheckPattern(pattern, netpolicy.Allow) })
	if err != nil {
		return nil, err
	}
	network.Allow = append(network.Allow, patterns...)
	return func(host string) error {
		if err := netpolicy.CheckHostPort(host); err != nil { // the executor has named it, and the file is for all executors
			return fmt.Errorf("%q: %w", host, err)
		}
		return file.Add(host)
	}, nil
}

// mayWrite reports whether commands on this machine may be able to write a file.
func (m *mcpServe) mayWrite(file settings.HostsFile, dir string) bool {
	switch m.sandbox {
	case sandboxhost.ProfileReadOnly:
		return false
	case sandboxhost.ProfileWorkspaceWrite:
		return file.IsBelow(dir) || file.IsBelow(os.TempDir()) || file.IsBelow("/tmp")
	}
	return true
}

// workspace returns the directory where commands start. On a named server, a relative path
// begins in the server's own directory.
func (m *mcpServe) workspace() (string, error) {
	if m.isRemote() {
		return m.cwd, nil
	}
	return m.dir(nil)
}

// serve serves clients until they have left, or the context ends.
func (m *mcpServe) serve(ctx context.Context, s *mcpserver.Server, l *mcpserver.Listener) error {
	if l == nil {
		err := s.Serve(ctx, m.stdin, m.stdout)
		return cmp.Or(err, context.Cause(ctx)) // a signal is an early end here
	}
	if _, err := fmt.Fprintln(m.stdout, l.URL); err != nil {
		return err
	}
	return s.ServeHTTP(ctx, l) // a signal is the normal end here
}

// open opens the listener for HTTP clients. It returns nil if the client is on standard input and output.
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
	if errors.Is(err, mcpserver.ErrNoToken) {
		err = fmt.Errorf("%w, in the file that --listen-token-file names", err)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--listen: %w", err)}
	}
	return l, nil
}

// readToken reads a token from a file; flag is for errors.
func readToken(flag, name string) (string, error) {
	token, err := (&serverFlags{tokenFile: name}).token()
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, errors.Unwrap(err))
	}
	return token, nil
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
