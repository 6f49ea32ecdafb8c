//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/ports"
	engine "github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// maxForwards is how many ports one command forwards.
const maxForwards = 128

// noForwarding is the message about a server without [client.FeaturePorts].
const noForwarding = "the server does not forward ports: it was started with --forward none, or is not a tether server of this version"

// A forwardSpec is an argument of `tether forward`.
type forwardSpec struct {
	text    string
	local   uint16 // 0: any
	to      ports.Target
	process string // the id of a process whose port is the target; "": none
}

// parseForward understands PORT, LOCAL:PORT, LOCAL:HOST:PORT, ID and LOCAL:ID.
func parseForward(text string) (forwardSpec, error) {
	s := forwardSpec{text: text}
	local, rest, two := strings.Cut(text, ":")
	if !two {
		rest = local
	}
	host, remote, err := splitHost(rest)
	if err != nil {
		return s, s.refuse(err.Error())
	}
	s.to.Host = host
	isID := s.to.Host == "" && strings.IndexFunc(remote, unicode.IsLetter) >= 0
	switch {
	case isID && !two:
		s.process = remote
		return s, nil
	case isID:
		s.process = remote
		s.local, err = parsePort(local, true)
	default:
		if s.local, err = parsePort(local, two); err == nil {
			s.to.Port, err = parsePort(remote, false)
		}
	}
	if err != nil {
		return s, s.refuse(err.Error())
	}
	return s, nil
}

func (s *forwardSpec) refuse(why string) error {
	return usageError{fmt.Errorf("%q: %s; expected PORT, LOCAL:PORT, LOCAL:HOST:PORT, ID or LOCAL:ID", s.text, why)}
}

// splitHost splits HOST:PORT, or PORT, for which the host is empty.
func splitHost(text string) (host, port string, err error) {
	before, port, two := cutLast(text, ':')
	if !two {
		return "", text, nil
	}
	if host = before; strings.HasPrefix(before, "[") && strings.HasSuffix(before, "]") {
		host = before[1 : len(before)-1]
	}
	if host == "" || strings.Contains(host, ":") != strings.HasPrefix(before, "[") {
		return "", "", errors.New("the host is a name or an address, and an IPv6 address is in brackets")
	}
	return host, port, nil
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func parsePort(text string, zero bool) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 && !zero || text[0] == '+' {
		return 0, fmt.Errorf("%q is no port", text)
	}
	return uint16(n), nil
}

func newForward() *cobra.Command {
	var server serverFlags
	var reverse []string
	cmd := &cobra.Command{
		Use:   nameForward + " [flags] [PORT...]",
		Short: shortForward,
		Long: "Listen on ports of this machine, on loopback only, and forward each connection through the server.\n" +
			"PORT is 5173 (the same port of the server's machine), 8080:80 (port 8080 here, 80 there) or\n" +
			"8080:HOST:80 (another machine, which the server's --forward must allow). The local port 0 is any\n" +
			"free one. ID or 8080:ID is the port on which a process listens, by its name in `tether ps` or\n" +
			"SESSION/NAME.\n\n" +
			"With --reverse, the server listens on loopback of its machine, and connections come to this one:\n" +
			"--reverse 3000 to the same port, --reverse 8080:3000 from port 8080 there to port 3000 here, and\n" +
			"--reverse 8080:HOST:3000 to another machine that this one reaches. An address of loopback may stand\n" +
			"before the port. The server's --forward-reverse must allow it.\n\n" +
			"Forwarded connections survive lost connections to the server. SIGINT and SIGTERM end them.",
		Example: "  tether forward 5173\n" +
			"  tether forward --url ssh://build 8080:80 5432\n" +
			"  tether forward 0:db.internal:5432\n" +
			"  tether forward 8080:web\n" +
			"  tether forward --reverse 9000:3000",
		DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			_, _, err := parseAllForwards(args, reverse)
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			specs, listeners, err := parseAllForwards(args, reverse)
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return orSignal(ctx, forwardPorts(ctx, cmd, &server, specs, listeners))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVarP(&reverse, "reverse", "R", nil, "`PORT` on which the server listens and, behind a colon, where\nconnections to it go; can be repeated")
	server.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

func parseAllForwards(args, reverse []string) (specs []forwardSpec, listeners []reverseSpec, err error) {
	if len(args)+len(reverse) == 0 {
		return nil, nil, usageError{errors.New("a port is needed")}
	}
	if specs, err = parseForwards(args); err == nil {
		listeners, err = parseReverses(reverse)
	}
	return specs, listeners, err
}

func parseForwards(args []string) (specs []forwardSpec, err error) {
	if len(args) > maxForwards {
		return nil, usageError{fmt.Errorf("at most %d ports can be forwarded", maxForwards)}
	}
	for _, arg := range args {
		s, err := parseForward(arg)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// forwardPorts listens and forwards until ctx ends or the session is lost.
func forwardPorts(ctx context.Context, cmd *cobra.Command, server *serverFlags, specs []forwardSpec, reverse []reverseSpec) error {
	var f forwarder
	defer f.close()
	for i := range specs {
		if err := f.listen(ctx, &specs[i]); err != nil {
			return err
		}
	}
	status := terminal.NewStatusLine(cmd.ErrOrStderr(), server.quiet)
	conn, err := server.dial(ctx, status, client.Options{TTL: keepAttended}, homeServer(false))
	if err != nil {
		return err
	}
	defer conn.end()
	switch {
	case len(specs) > 0 && !conn.Has(client.FeaturePorts):
		return errors.New(noForwarding)
	case len(reverse) > 0 && !conn.Has(client.FeaturePortListen):
		return errors.New(noListening)
	}
	for i := range f.listeners {
		if err := f.listeners[i].resolve(ctx, conn); err != nil {
			return err
		}
	}
	serving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(conn.Lifetime(), func() { cancel(context.Cause(conn.Lifetime())) })()
	forwarding := ports.Of(conn.Client)
	var tasks sync.WaitGroup
	if err := listenThere(serving, forwarding, reverse, status, &tasks); err != nil {
		cancel(nil)
		tasks.Wait()
		return err
	}
	for _, l := range f.listeners {
		tasks.Go(func() { // ends with serving
			forwarding.Serve(serving, l, l.to, func(from net.Addr, err error) {
				status.Note(terminal.Printable(fmt.Sprintf("connection from %s to %s: %v", from, l.to, err)))
			})
		})
		status.Note(fmt.Sprintf("%s is forwarded to %s", l.Addr(), l.to))
	}
	tasks.Wait()
	return context.Cause(serving)
}

// A forwarder has the listeners of a command.
type forwarder struct{ listeners []forwardListener }

type forwardListener struct {
	net.Listener
	to      ports.Target
	process string // see forwardSpec
}

// resolve finds the port on which the process listens, if one is named.
func (l *forwardListener) resolve(ctx context.Context, conn *connection) error {
	if l.process == "" {
		return nil
	}
	p, err := findBy(ctx, conn, l.process, resolveOnly)
	if err != nil {
		return err
	}
	found, err := ports.Of(conn.Client).Listeners(ctx, p.SessionID)
	if err != nil {
		return err
	}
	l.to, err = targetOf(l.process, p.ProcessID, found.List)
	return err
}

// targetOf returns the only port on which a process listens.
func targetOf(id, process string, list []wire.PortListener) (to ports.Target, err error) {
	for _, found := range list {
		if found.ProcessID != process {
			continue
		}
		if to.Port != 0 && to.Port != found.Port {
			return to, fmt.Errorf("%s listens on several ports, %d and %d among them; name the port (see `tether ports`)", id, to.Port, found.Port)
		}
		to = ports.At(found)
	}
	if to.Port == 0 {
		err = fmt.Errorf("%s listens on no port", id)
	}
	return to, err
}

// listen listens for one argument.
func (f *forwarder) listen(ctx context.Context, s *forwardSpec) error {
	list, err := engine.ListenLocal(ctx, s.local)
	if err != nil {
		return s.cannotListen(err)
	}
	for _, l := range list {
		f.listeners = append(f.listeners, forwardListener{l, s.to, s.process})
	}
	return nil
}

// cannotListen says what to do when a port cannot be listened on.
func (s *forwardSpec) cannotListen(err error) error {
	other := "0:" + s.text
	if _, rest, two := strings.Cut(s.text, ":"); two {
		other = "0:" + rest
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %d of this machine is in use; choose another one, or any free one with %s", s.local, other)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("port %d of this machine needs rights that this user does not have; choose one above 1023, or any free one with %s", s.local, other)
	}
	return fmt.Errorf("listen on port %d: %w", s.local, cause(err))
}

func (f *forwarder) close() {
	for _, l := range f.listeners {
		l.Close()
	}
}
