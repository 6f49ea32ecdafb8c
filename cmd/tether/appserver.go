package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/appserver"
	"github.com/tetherexec/tether/internal/codexhome"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/terminal"
)

// appServerFlags are the flags of `tether app-server`.
type appServerFlags struct {
	listen              listenFlags
	stdio               bool
	logLevel, logFormat choice
}

// newAppServer is `tether app-server`.
func newAppServer(stdin, stdout *os.File) *cobra.Command {
	var flags appServerFlags
	cmd := &cobra.Command{
		Use:   "app-server [flags]",
		Short: "Serve the process API of the Codex app-server",
		Long: "Serve the process API of the Codex app-server: process/spawn, writeStdin, resizePty and kill.\n\n" +
			"Commands run on this machine, unconfined, and end with the connection that started them.\n" +
			"On standard input and output the server ends with its input. Otherwise the first line on\n" +
			"standard output is the URL to connect to, and SIGINT and SIGTERM end the server.",
		Example: "  tether app-server\n" +
			"  tether app-server --listen ws://127.0.0.1:7444",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stderr := cmd.ErrOrStderr()
			listenCfg, err := flags.config(stderr)
			if err != nil {
				return err
			}
			return serveApp(cmd.Context(), listenCfg, newLog(stderr, flags.logLevel.value, flags.logFormat.value), stdin, stdout, stderr)
		},
	}
	flags.define(cmd)
	return cmd
}

func (f *appServerFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.listen.cfg.URL, "listen", "stdio://", "`URL` to listen on: stdio:// for one client on standard input and\noutput, ws://IP:PORT, wss://IP:PORT, unix://PATH, or unix:// for a\nsocket in the Codex home directory")
	fs.BoolVar(&f.stdio, "stdio", false, "the same as --listen stdio://")
	group(fs, "Where to listen", "listen", "stdio")
	f.listen.define(fs)
	f.logLevel = choice{"error", "LEVEL", []string{"error", "warn", "info", "debug"}}
	f.logFormat = choice{"text", "FORMAT", []string{"text", "json"}}
	fs.Var(&f.logLevel, "log-level", "least severity to log on standard error: error, warn, info or debug")
	fs.Var(&f.logFormat, "log-format", "form of the log: text or json")
	group(fs, "Logging", "log-level", "log-format")
	onlyOnce(fs)
	cmd.MarkFlagsMutuallyExclusive("listen", "stdio")
}

// config turns the flags into the settings of a listener.
func (f *appServerFlags) config(stderr io.Writer) (listen.Config, error) {
	url := &f.listen.cfg.URL
	switch *url {
	case "off":
		return listen.Config{}, errors.New("no transport configured: `--listen off` leaves nothing to serve")
	case "unix://":
		path, err := controlSocket()
		if err != nil {
			return listen.Config{}, err
		}
		*url += path
	}
	return f.listen.config(stderr)
}

// controlSocket returns the path where clients expect the app-server of a user. It makes
// the directory.
func controlSocket() (string, error) {
	home, err := codexhome.Find(os.Environ())
	if err != nil {
		return "", err
	}
	dir := home.ControlDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory of the socket: %w", err)
	}
	return filepath.Join(dir, "app-server-control.sock"), nil
}

// serveApp runs an app-server until its client leaves or a signal ends it.
func serveApp(ctx context.Context, listenCfg listen.Config, log *slog.Logger, stdin, stdout *os.File, stderr io.Writer) error {
	if err := proc.ResetInherited(); err != nil {
		return fmt.Errorf("prepare for children: %w", err)
	}
	ctx, caught, stop, restore := serverSignals(ctx)
	defer restore()
	defer stop()

	l, err := openListener(ctx, listenCfg)
	if err != nil {
		return err
	}
	if l != nil {
		defer l.Close()
	}
	s, err := appserver.New(appserver.Config{Version: versionText(), Subreaper: true, Log: log})
	if err != nil {
		return err
	}
	<-caught
	if l != nil {
		if err := announceApp(stdout, stderr, l); err != nil {
			s.Close()
			return err
		}
	}
	return untilStopped(ctx, stop, func() error {
		defer s.Close()
		if l == nil {
			s.ServeStdio(ctx, terminal.InterruptibleReader(stdin), terminal.InterruptibleWriter(stdout))
			return nil
		}
		return s.Serve(ctx, l)
	})
}

// announceApp prints the URL, and for ws:// also the lines that the reference prints, because
// scripts may read them.
func announceApp(stdout *os.File, stderr io.Writer, l *listen.Listener) error {
	if _, err := fmt.Fprintln(stdout, l.URL); err != nil {
		return fmt.Errorf("print URL: %w", err)
	}
	if rest, ok := strings.CutPrefix(l.URL, "ws"); ok {
		web := "http" + rest
		fmt.Fprintf(stderr, "tether app-server (WebSockets)\n  listening on: %s\n  readyz: %s/readyz\n  healthz: %s/healthz\n", l.URL, web, web)
	}
	return nil
}
