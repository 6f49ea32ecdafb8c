//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/appserver"
	"github.com/tetherexec/tether/internal/codexhome"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/service"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/internal/worker"
)

// appServerFlags are the flags of `tether app-server`.
type appServerFlags struct {
	listen listenFlags
	stdio  bool
	keeper keeperFlags
	log    logFlags
	file   configFlags
}

// newAppServer is `tether app-server`.
func newAppServer(args []string, stdin, stdout *os.File) *cobra.Command {
	var flags appServerFlags
	cmd := &cobra.Command{
		Use:   nameAppServer + " [flags]",
		Short: shortAppServer,
		Long: "Serve the process API of the Codex app-server: process/spawn, writeStdin, resizePty and kill.\n\n" +
			"Commands run on this machine, unconfined, and end with the connection that started them.\n" +
			"On standard input and output the server ends with its input. Otherwise the first line on\n" +
			"standard output is the URL to connect to, and SIGINT and SIGTERM end the server. When such a\n" +
			"server crashes, its connections and their commands end, and clients can connect again at once.",
		Example: "  tether app-server\n" +
			"  tether app-server --listen ws://127.0.0.1:7444",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.file.apply(cmd, nameAppServer); err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			listenCfg, err := flags.config(stderr)
			if err != nil {
				return err
			}
			r := newReloader(cmd, nameAppServer, args, &flags, &flags.log, func() reloadable { return new(appServerFlags) })
			if done, err := flags.file.done(stdout); done || err != nil {
				return err
			}
			defer flags.log.close()
			a := appServing{
				cfg:    appserver.Config{Version: versionText(), Subreaper: true, Log: flags.log.open(stderr)},
				listen: listenCfg, reload: r, stdin: stdin, stdout: stdout, stderr: stderr,
			}
			s := keepable{
				listen: listenCfg, flags: flags.keeper, log: a.cfg.Log, logJSON: flags.log.json(stderr), reload: r, killOrphans: true,
				state:    func(socket *os.File) (*worker.State, error) { return worker.NewListener(socket), nil },
				announce: a.announce, alone: a.alone, kept: a.kept,
			}
			return s.serve(cmd.Context())
		},
	}
	flags.define(cmd)
	return cmd
}

func (f *appServerFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.listen.cfg.URL, "listen", "stdio://", "`URL` to listen on: stdio:// for one client on standard input and\noutput, ws://IP:PORT, wss://IP:PORT, unix://PATH, unix:// for a\nsocket in the Codex home directory, or systemd (or systemd:NAME) for\nthe socket of a socket unit")
	fs.BoolVar(&f.stdio, flagStdio, false, "the same as --listen stdio://")
	group(fs, "Where to listen", "listen", flagStdio)
	f.listen.define(fs)
	f.keeper.define(fs, "let a small process hold the listening socket, and start the server\nagain when it crashes (default with a listener)")
	group(fs, "Crashes", "keeper", "no-keeper", "replace-frozen")
	f.log.define(fs, "error")
	onlyOnce(fs)
	f.file.define(fs)
	f.keeper.file = &f.file
	cmd.MarkFlagsMutuallyExclusive("listen", flagStdio)
}

// config turns the flags into the settings of a listener.
func (f *appServerFlags) config(stderr io.Writer) (listen.Config, error) {
	url := &f.listen.cfg.URL
	if f.stdio { // whatever a configuration file says
		*url = "stdio://"
	}
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

func (f *appServerFlags) fileFlags() *configFlags { return &f.file }

// settings implements reloadable.
func (f *appServerFlags) settings(stderr io.Writer) (s *serverSettings, err error) {
	s = new(serverSettings)
	s.listen, err = f.config(stderr)
	s.level = f.log.minimum()
	return s, err
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

// An appServing runs an app-server.
type appServing struct {
	cfg           appserver.Config
	listen        listen.Config
	reload        *reloader
	stdin, stdout *os.File
	stderr        io.Writer
}

// alone runs an app-server without a keeper until its client leaves or a signal ends it.
func (a *appServing) alone(ctx context.Context, l *listen.Listener) (err error) {
	runtime.UnlockOSThread() // see main
	ctx, caught, stop, restore := serverSignals(ctx)
	defer restore()
	defer stop()

	if l == nil {
		if l, err = openListener(ctx, a.listen); err != nil {
			return err
		}
	}
	if l != nil {
		defer l.Close()
	}
	manager := service.Find()
	service.Forget()
	s, err := appserver.New(a.cfg)
	if err != nil {
		return err
	}
	<-caught
	if l != nil {
		a.reload.listener = l
		defer a.reload.onHangup()()
		if err := a.announce(l); err != nil {
			s.Close()
			return err
		}
		manager.Ready()
	}
	context.AfterFunc(ctx, manager.Stopping)
	defer every(manager.Interval(), manager.Alive)()
	return untilStopped(ctx, stop, func() error {
		defer s.Close()
		if l == nil {
			s.ServeStdio(ctx, terminal.InterruptibleReader(a.stdin), terminal.InterruptibleWriter(a.stdout))
			return nil
		}
		return s.Serve(ctx, l)
	})
}

// kept makes the server of a worker.
func (a *appServing) kept(k *keptServing, events worker.Events) (workerServer, error) {
	door, order, err := worker.ReceiveListener(k.worker, a.cfg.Log, k.prepare, events)
	if err != nil {
		return nil, err
	}
	if err := k.listen(door); err != nil {
		return nil, err
	}
	a.cfg.Earlier, k.beat = order.Number > 1, order.Beat
	return appserver.New(a.cfg)
}

// announce prints the URL, and for ws:// also the lines that the reference prints, because
// scripts may read them.
func (a *appServing) announce(l *listen.Listener) error {
	if err := printURL(a.stdout, l); err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(l.URL, "ws"); ok {
		web := "http" + rest
		fmt.Fprintf(a.stderr, "tether app-server (WebSockets)\n  listening on: %s\n  readyz: %s/readyz\n  healthz: %s/healthz\n", l.URL, web, web)
	}
	return nil
}
