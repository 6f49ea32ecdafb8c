//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/console/relay"
	"github.com/tetherexec/tether/wire"
)

// A consoleRequest is `tether console`.
type consoleRequest struct {
	serverFlags
	noBrowser bool
}

func newConsole() *cobra.Command {
	var r consoleRequest
	cmd := &cobra.Command{
		Use:   nameConsole + " [flags]",
		Short: shortConsole,
		Long: "Print the URL of a server's console and open it in a browser, if there is one. The URL has a\n" +
			"code that lets one browser in, with the rights of this client. It works once and for a minute.\n\n" +
			"If a browser cannot reach the server by itself (unix://, ssh://, exec:, and without --url), this\n" +
			"command passes its connections on from a port of this machine until it is ended.",
		Example:               "  tether console\n  tether console --url ws://127.0.0.1:7000\n  tether console --url ssh://build",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return orSignal(ctx, r.run(ctx, cmd))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&r.noBrowser, "no-browser", false, "only print the URL")
	r.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

func (r *consoleRequest) run(ctx context.Context, cmd *cobra.Command) error {
	var code wire.ConsoleCode
	var server address
	if err := r.withObserver(ctx, cmd.ErrOrStderr(), func(conn *connection) (err error) {
		server = conn.server.address
		if named, ok, _ := r.address(); ok {
			server = named // as given
		}
		code, err = r.code(ctx, conn)
		return err
	}); err != nil {
		return err
	}
	log := slog.New(newLogForm(slog.LevelWarn, false)(cmd.ErrOrStderr()))
	if server.command != nil {
		return r.servePages(ctx, cmd, server, code.ReadOnly, log)
	}
	socket, onSocket := strings.CutPrefix(server.url, schemeUnix+"://")
	if !onSocket {
		origin, err := pageOrigin(server.url, code.Origin)
		if err != nil {
			return err
		}
		return r.show(cmd, origin, server.query().Encode(), code.Code)
	}
	passing, err := relay.Listen(func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", socket) }, log)
	if err != nil {
		return err
	}
	if err := r.show(cmd, passing.Origin(), "", code.Code); err != nil {
		return err
	}
	return passing.Serve(ctx)
}

// code asks the server for a code. A gateway passes requests on to a host, so that it is asked over HTTP.
func (r *consoleRequest) code(ctx context.Context, conn *connection) (code wire.ConsoleCode, err error) {
	switch {
	case conn.Has(client.FeatureConsole):
		err = conn.Call(ctx, client.AtMostOnce, wire.MethodConsoleCode, wire.Empty{}, &code)
		return code, err
	case conn.Host() != "" && conn.server.command == nil:
		gateway, o, err := r.gateway()
		if err != nil {
			return code, err
		}
		return client.ConsoleCode(ctx, gateway.url, o)
	}
	return code, fmt.Errorf("%w: it was started with --no-console, or is not a tether server of this version", client.ErrNoConsole)
}

// servePages serves the page here, for a server that is reached by a command.
func (r *consoleRequest) servePages(ctx context.Context, cmd *cobra.Command, server address, readOnly bool, log *slog.Logger) error {
	if readOnly {
		return errors.New("the console of this server only lets people watch, which cannot be ensured from here; run `tether console` on the server's machine")
	}
	pages, err := relay.ListenPages(ctx, consoleFiles, relay.Command(server.command, server.ssh, cmd.ErrOrStderr()), log)
	if err != nil {
		return err
	}
	origin, code, err := pages.Open()
	if err != nil {
		return err
	}
	if err := r.show(cmd, origin, "", code); err != nil {
		return err
	}
	return pages.Serve(ctx)
}

// show prints the URL of the page and opens it.
func (r *consoleRequest) show(cmd *cobra.Command, origin, query, code string) error {
	page := console.URL(origin, query, code)
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), page); err != nil {
		return fmt.Errorf("print URL: %w", err)
	}
	if !r.noBrowser {
		if err := openBrowser(page); err != nil && !r.quiet {
			printLine(cmd.ErrOrStderr(), "open this URL in a browser within a minute ("+err.Error()+")")
		}
	}
	return nil
}

// pageOrigin returns the origin of the page of a server at a ws:// or wss:// URL. A server that is reached by a name expects that of its flag
// --console-origin.
func pageOrigin(address string, named *string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if named != nil {
		return *named, console.CheckOrigin(*named) // a hostile server must not choose what else is printed and opened here
	}
	scheme := "http"
	if u.Scheme == "wss" {
		scheme = "https"
	}
	if !console.NamesAddress(u.Host) {
		return "", fmt.Errorf("browsers may not reach this server by the name %s: start it with `--console-origin %s://%s`, or use its address", u.Hostname(), scheme, u.Host)
	}
	return scheme + "://" + u.Host, nil
}
