package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/service"
	"github.com/tetherexec/tether/internal/shellword"
	"github.com/tetherexec/tether/internal/statedir"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/internal/trim"
	"github.com/tetherexec/tether/internal/worker"
)

// stopPatience bounds a shutdown. A server ends within milliseconds, unless a file system
// hangs; the shutdown does not wait for that.
const stopPatience = 5 * time.Second

// serveFlags are the flags of `tether serve`.
type serveFlags struct {
	cfg                          server.Config
	listen                       listenFlags
	console                      consoleFlags
	join                         joinFlags
	log                          logFlags
	audit                        auditFlags
	otlp                         otlpFlags
	concurrent                   count
	ttl, ttlMax, idleExit        lifetime
	retain, spoolLimit, spoolAll byteSize
	reference                    referenceFlags
	keeper                       keeperFlags
	file                         configFlags
	durable                      choice
	forward, forwardReverse      choice
	machine                      machineFlags
	limits                       serverLimitFlags
}

// newServe is `tether serve` under either of its names.
func newServe(name, short string, args []string, stdin, stdout *os.File) *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   name + " [flags]",
		Short: short,
		Long: "Serve clients that run commands and use files on this machine.\n\n" +
			"The first and only line on standard output is the URL to connect to. SIGINT and SIGTERM end the\n" +
			"server and all processes that it has started.",
		Example: "  tether " + name + "\n" +
			"  tether " + name + " --listen unix://$XDG_RUNTIME_DIR/tether.sock\n" +
			"  tether " + name + " --listen wss://0.0.0.0:7443 --tls-cert cert.pem --tls-key key.pem \\\n" +
			"      --ws-auth capability-token --ws-token-file token",
		Args:                  serveArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.file.apply(cmd, "serve"); err != nil {
				return err
			}
			switch {
			case hasFleet:
			case flags.join.url != "":
				return withFleet.become(name+" --join", args)
			case flags.listen.auth.oidc.issuer != nil:
				return withFleet.become(name+" --oidc-issuer", args)
			case flags.otlp.endpoint != "" && !hasOTLP:
				return withMCP.become(name+" --"+flagOTLP, args)
			}
			set, err := flags.settings(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			listenCfg, cfg := set.listen, set.server
			cfg.Log, cfg.LogDropped = flags.log.open(cmd.ErrOrStderr()), flags.log.dropped
			defer flags.log.close()
			r := newReloader(cmd, "serve", args, &flags, &flags.log, func() reloadable { return new(serveFlags) })
			if done, err := flags.file.done(stdout); done || err != nil {
				return err
			}
			endSpans, err := flags.otlp.use(&cfg)
			if err != nil {
				return err
			}
			defer endSpans()
			join, err := flags.join.prepare(cfg, listenCfg.URL, cmd.Flags(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			s := keepable{
				listen: listenCfg, flags: flags.keeper, log: cfg.Log, logJSON: flags.log.json(cmd.ErrOrStderr()), reload: r,
				check:    func() error { return errors.Join(cfg.CheckLimits(), cfg.Audit.Check()) },
				state:    func(socket *os.File) (*worker.State, error) { return worker.NewState(cfg, socket) },
				announce: func(l *listen.Listener) error { return printURL(stdout, l) },
				alone: func(ctx context.Context, l *listen.Listener) error {
					return serveAlone(ctx, listenCfg, cfg, join, r, l, stdin, stdout)
				},
				kept: func(k *keptServing, events worker.Events) (workerServer, error) {
					return newKept(k, cfg, join, events, cmd.ErrOrStderr())
				},
				durable: cfg.Durable,
				desert: func() {
					desert(cfg)
					flags.log.close()
					os.Exit(exitRefused)
				},
			}
			return s.serve(cmd.Context())
		},
	}
	flags.define(cmd)
	return cmd
}

func serveArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == "forward" {
		return usageError{errors.New("`forward` is not supported; `codex exec-server forward --connect URL` can be given the URL of a tether server")}
	}
	return noArguments(cmd, args)
}

func (f *serveFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.listen.cfg.URL, "listen", listen.DefaultURL, "`URL` to listen on: ws://IP:PORT, wss://IP:PORT, unix://PATH,\nstdio for one client on standard input and output, or systemd (or\nsystemd:NAME) for the socket of a socket unit")
	group(fs, "Where to listen", "listen")
	f.listen.define(fs)
	f.listen.auth.oidc.define(fs)
	f.console.define(fs)

	f.ttl, f.ttlMax = lifetime(server.DefaultSessionTTL), lifetime(server.DefaultSessionTTLMax)
	f.retain, f.spoolLimit, f.spoolAll = server.DefaultRetain, server.DefaultSpoolLimit, server.DefaultSpoolTotal
	fs.Var(&f.ttl, "session-ttl", "how long a session is kept without a connection")
	fs.Var(&f.ttlMax, "session-ttl-max", "the longest such time that a client may ask for")
	fs.Var(&f.idleExit, "idle-exit", "end after this time without clients and sessions (default never)")
	fs.Var(&f.retain, "retain", "how much output of a process is kept after it was sent")
	fs.Var(&f.spoolLimit, "spool-limit", "how much unsent output a process may have before it has to wait")
	fs.Var(&f.spoolAll, "spool-total", "how much output of all processes is kept")
	fs.StringVar(&f.cfg.StateDir, "state-dir", "", "`PATH` for output that does not fit in memory\n(default $XDG_STATE_HOME/tether or ~/.local/state/tether)")
	fs.Var(&f.concurrent, "concurrent-requests", "no effect; accepted because codex exec-server has this flag.\nRequests always run concurrently, unless one depends on another")
	f.keeper.define(fs, "let commands, output and sessions survive a crash of the server:\na small process keeps them, and starts the server again (default)")
	f.durable = choice{durableNone, "WHAT", []string{durableNone, durableProcess}}
	fs.Var(&f.durable, "durable", "let sessions and output also survive the death of the keeper, with\nwhich commands end: process, or none")
	f.machine.define(fs)
	group(fs, "Sandbox", userSockets, sandboxBackend)
	group(fs, "Sessions and limits", "session-ttl", "session-ttl-max", "idle-exit", "retain", "spool-limit", "spool-total", "state-dir", "keeper", "no-keeper", "replace-frozen", "durable", "concurrent-requests")

	f.forward, f.forwardReverse = policies("TARGETS", ports.Policies), policies("WHERE", ports.ReversePolicies)
	fs.Var(&f.forward, "forward", "which ports clients may forward: loopback (those of this machine), any\n(also of other machines), or none")
	fs.Var(&f.forwardReverse, "forward-reverse", "where clients may let the server listen for connections that go to\ntheir machines: none or loopback")
	group(fs, "Ports", "forward", "forward-reverse")
	f.limits.define(fs)

	f.join.define(fs)
	f.log.define(fs, "info")
	fs.Lookup("log-level").Usage += ";\nwith --listen stdio the default is error"
	f.audit.define(fs)
	f.otlp.define(fs)
	f.reference = addReferenceFlags(fs)
	onlyOnce(fs)
	f.file.define(fs)
	f.keeper.file = &f.file
}

// policies is a choice whose default is the first word.
func policies(kind string, words []ports.Policy) choice {
	c := choice{kind: kind, value: string(words[0])}
	for _, word := range words {
		c.words = append(c.words, string(word))
	}
	return c
}

// settings turns the flags into the settings of a listener and of a server. Warnings go to stderr.
func (f *serveFlags) settings(stderr io.Writer) (*serverSettings, error) {
	s := &serverSettings{server: f.cfg}
	cfg := &s.server
	warnings, err := f.reference.check(f.join.url != "")
	if err != nil {
		return nil, err
	}
	if f.listen.isStdio() && !f.log.fs.Changed("log-level") {
		f.log.level.value = "error" // the client shows standard error to its user
	}
	for _, warning := range warnings {
		printLine(stderr, "warning: "+warning)
	}
	if s.listen, err = f.listen.config(stderr); err != nil {
		return nil, err
	}
	if s.listen.Console, err = f.console.config(); err != nil {
		return nil, err
	}
	f.machine.apply(cfg)
	cfg.SessionTTL, cfg.SessionTTLMax = time.Duration(f.ttl), time.Duration(f.ttlMax)
	cfg.IdleExit = time.Duration(f.idleExit)
	if cfg.SessionTTL > cfg.SessionTTLMax {
		return nil, fmt.Errorf("`--session-ttl` %v is more than `--session-ttl-max` %v", cfg.SessionTTL, cfg.SessionTTLMax)
	}
	cfg.Retain, cfg.SpoolLimit, cfg.SpoolTotal = int64(f.retain), int64(f.spoolLimit), int64(f.spoolAll)
	cfg.Forward, cfg.ForwardReverse = ports.Policy(f.forward.value), ports.Policy(f.forwardReverse.value)
	cfg.Durable = f.durable.value == durableProcess
	cfg.Private = s.listen.Private()
	cfg.Version = versionText()
	cfg.Subreaper, cfg.OwnGroup = true, true
	cfg.Limits, cfg.TotalLimits = f.limits.limits()
	if cfg.Audit, err = f.audit.config(); err != nil {
		return nil, err
	}
	if cfg.Audit.IsFile() {
		cfg.Private = append(cfg.Private, cfg.Audit.Target)
	}
	s.level = f.log.minimum()
	return s, cfg.Validate()
}

func (f *serveFlags) fileFlags() *configFlags { return &f.file }

// The values of --durable.
const (
	durableNone    = "none"
	durableProcess = "process"
)

// desert ends the commands of a durable server whose keeper has died. Nothing that it has recorded changes.
func desert(cfg server.Config) {
	dir, err := cfg.SharedState()
	if err == nil {
		err = statedir.Desert(dir)
	}
	cfg.Log.Error("the keeper has died, and silent commands may run until the next server is started", "err", err)
}

// unmapDelay is how long after its start a server unmaps the pages of its program. Starting
// uses code and tables from nearly all of the program, serving uses little of it.
const unmapDelay = time.Second

// prepareServer changes what the whole process has of its parent and of packages.
func prepareServer() error {
	if err := proc.ResetInherited(); err != nil {
		return fmt.Errorf("prepare for children: %w", err)
	}
	log.SetOutput(io.Discard) // the server has its own log; net/http would print unexpected bytes of web servers here
	return nil
}

// withSocket adds the socket file of a listener to the paths that no confined command may see. That of a socket unit is not known before.
func withSocket(private []string, l *listen.Listener) []string {
	if l.SocketPath == "" || slices.Contains(private, l.SocketPath) {
		return private
	}
	return append(slices.Clip(private), l.SocketPath)
}

// newKept makes the server of a worker, with all that earlier workers have left.
func newKept(k *keptServing, cfg server.Config, join joining, events worker.Events, stderr io.Writer) (workerServer, error) {
	os.Unsetenv(instanceVariable) // commands must not get it
	kept, door, err := worker.Receive(k.worker, cfg.Log, k.prepare, events)
	if err != nil {
		return nil, err
	}
	if os.Getenv(hastyVariable) != "" {
		kept.Deaths = 0 // they were killed from outside
	}
	if err := k.listen(door); err != nil {
		return nil, err
	}
	kept.Listener, cfg.Kept, k.beat = k.listener, kept, kept.Beat
	cfg.Private, cfg.Reload = withSocket(cfg.Private, k.listener), k.reload.reload
	if k.settings != nil {
		cfg.TakeLimits(&k.settings.server)
	}
	s, err := server.New(cfg)
	if err != nil {
		return nil, err
	}
	k.reload.limits = s.SetLimits
	if kept.First {
		printConsole(stderr, k.listener)
	}
	return join(s), nil
}

// printConsole tells a person at a terminal how to open the console of a server that begins to serve.
func printConsole(stderr io.Writer, l *listen.Listener) {
	if l.Console == nil || !terminal.Is(stderr) {
		return
	}
	if origin := l.PageOrigin(); origin != "" {
		code, err := l.Console.Code(console.Grant{})
		if err == nil {
			printLine(stderr, "console (within a minute): "+console.URL(origin, "", code.Text))
		}
		return
	}
	printLine(stderr, "console: tether console --url "+shellword.Join([]string{l.URL}))
}

// A joining lets a server also serve the clients of a fleet, if it is to join one.
type joining func(*server.Server) execServer

// An execServer is a server of the exec-server protocol.
type execServer interface {
	workerServer
	ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error
}

// serveAlone runs a server without a keeper until it ends by itself or a signal ends it. l is its listener; nil: it has to be
// opened.
func serveAlone(ctx context.Context, listenCfg listen.Config, cfg server.Config, join joining, r *reloader, l *listen.Listener, stdin, stdout *os.File) (err error) {
	runtime.UnlockOSThread() // see main
	ctx, caught, stop, restore := serverSignals(ctx)
	defer restore()
	defer stop()

	if l == nil {
		if l, err = openListener(ctx, listenCfg); err != nil {
			return err
		}
	}
	if l != nil {
		defer l.Close()
	}
	manager := service.Find()
	service.Forget()
	os.Unsetenv(instanceVariable)
	if l != nil {
		cfg.Private, cfg.Reload = withSocket(cfg.Private, l), r.reload
	}
	made, err := server.New(cfg)
	if err != nil {
		return withStateDirFlag(err)
	}
	r.listener, r.limits = l, made.SetLimits
	if l != nil {
		defer r.onHangup()()
	}
	s := join(made)
	<-caught
	if l != nil {
		if err := printURL(stdout, l); err != nil {
			return errors.Join(err, s.Close())
		}
		printConsole(os.Stderr, l)
		manager.Ready()
	}
	context.AfterFunc(ctx, manager.Stopping)
	defer every(manager.Interval(), func() {
		made.Check()
		manager.Alive()
	})()
	defer time.AfterFunc(unmapDelay, func() { trim.Program().Unmap() }).Stop()
	return untilStopped(ctx, stop, func() error {
		if l == nil {
			err = s.ServeStdio(ctx, terminal.InterruptibleReader(stdin), terminal.InterruptibleWriter(stdout))
		} else {
			err = s.Serve(ctx, l)
		}
		return errors.Join(err, s.Close())
	})
}

// untilStopped runs work and returns its error. Once ctx has ended, work has stopPatience to
// return before the process ends without it, and a second signal ends the process at once.
func untilStopped(ctx context.Context, stop func(), work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }() // untilStopped waits for it, or the process ends
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		stop()
	}
	select {
	case err := <-done:
		return err
	case <-time.After(stopPatience):
		return nil
	}
}
