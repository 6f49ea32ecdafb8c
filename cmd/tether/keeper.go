package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/trim"
	"github.com/tetherexec/tether/internal/worker"
)

// hastyVariable, if set, makes the keeper replace workers at once, however often they die. If it is hastyRenew, each worker
// also makes the keeper replace itself. Tests set it.
const (
	hastyVariable = "TETHER_KEEPER_HASTY"
	hastyRenew    = "renew"
)

// leastFrozen is the least time for --replace-frozen: a busy machine may leave a worker without a processor for a while.
const leastFrozen = time.Second

// keeperFlags are the flags about the keeper.
type keeperFlags struct {
	on, off bool
	frozen  lifetime
}

func (f *keeperFlags) define(fs *pflag.FlagSet) {
	fs.BoolVar(&f.on, "keeper", false, "let commands, output and sessions survive a crash of the server:\na small process keeps them, and starts the server again (default)")
	fs.BoolVar(&f.off, "no-keeper", false, "one process only: its end is the end of all commands")
	fs.Var(&f.frozen, "replace-frozen", "with a keeper: replace a server that shows no sign of life for\nthis time (default never)")
}

func (f *keeperFlags) check() error {
	if f.on && f.off {
		return errors.New("`--keeper` and `--no-keeper` exclude each other")
	}
	if f.frozen != 0 && time.Duration(f.frozen) < leastFrozen {
		return fmt.Errorf("`--replace-frozen` must be at least %v", leastFrozen)
	}
	return nil
}

// config is the part of the keeper's settings that flags and the environment decide.
func (f *keeperFlags) config(logFormat string) keep.Config {
	return keep.Config{Args: os.Args[1:], LogJSON: logFormat == "json", Beat: time.Duration(f.frozen), Hasty: os.Getenv(hastyVariable) != ""}
}

// keepServing listens, prints the URL, and makes this process the keeper of a server. If that is not possible, the
// server runs in this process.
func keepServing(ctx context.Context, listenCfg listen.Config, cfg server.Config, flags keeperFlags, logFormat string, stdin, stdout *os.File) error {
	crash.Worker(0)
	keeper := flags.config(logFormat)
	keeper.IgnoreHangup = signal.Ignored(syscall.SIGHUP)
	if err := prepareServer(); err != nil {
		return err
	}
	begun, err := beginKeeping(listenCfg)
	if err != nil {
		flags.warn(ctx, cfg.Log, err)
		return serveAlone(ctx, listenCfg, cfg, nil, stdin, stdout)
	}
	l, err := openListener(ctx, listenCfg)
	if err != nil || l == nil { // without a listener no other client can resume the session
		begun.Cancel()
	}
	switch {
	case err != nil:
		return err
	case l == nil:
		return serveAlone(ctx, listenCfg, cfg, nil, stdin, stdout)
	}
	kept, err := newKept(cfg, l)
	if err != nil {
		begun.Cancel()
		flags.warn(ctx, cfg.Log, err)
		return serveAlone(ctx, listenCfg, cfg, l, stdin, stdout)
	}
	keeper.Held, keeper.Notice = kept.Held(), kept.Notice
	keeper.Announce = func() error {
		defer brokenPipeIsError()()
		if _, err := fmt.Fprintln(stdout, l.URL); err != nil {
			return fmt.Errorf("print URL: %w", err)
		}
		return nil
	}
	keeper.Abandon = func() {
		kept.Close()
		l.Close()
	}
	err = begun.Become(keeper) // the URL may be printed: a client would not notice that it gets less
	keeper.Abandon()
	begun.Cancel()
	return err
}

// beginKeeping begins to make this process a keeper.
func beginKeeping(listenCfg listen.Config) (*keep.Beginning, error) {
	for _, name := range listenCfg.Files() {
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file: the next worker could not read it again", name)
		}
	}
	return keep.Begin()
}

// warn logs why there is no keeper.
func (f *keeperFlags) warn(ctx context.Context, log *slog.Logger, why error) {
	level := slog.LevelInfo
	if f.on {
		level = slog.LevelWarn
	}
	log.Log(ctx, level, "there is no keeper: commands and sessions end with this process", "err", why)
}

// newKept makes what the workers of a server share.
func newKept(cfg server.Config, l *listen.Listener) (*worker.State, error) {
	socket, err := l.File()
	if err != nil {
		return nil, err
	}
	kept, err := worker.NewState(cfg, socket)
	if err != nil {
		socket.Close()
	}
	return kept, err
}

// serveKept runs a server below a keeper: the worker.
func serveKept(ctx context.Context, listenCfg listen.Config, cfg server.Config) error {
	runtime.UnlockOSThread() // see main
	w, err := keep.Connect()
	if err != nil {
		return err
	}
	if err := prepareServer(); err != nil {
		return err
	}
	os.Unsetenv(keep.NotifyVariable) // commands must not get it
	ctx, caught, stop, restore := serverSignals(ctx)
	defer restore()
	defer stop()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	k := keptServing{listenCfg: listenCfg}
	kept, socket, err := worker.Receive(w, cfg.Log, k.prepare, worker.Events{Drain: k.drain, Lost: lost})
	if err != nil {
		return withExitStatus(err)
	}
	if os.Getenv(hastyVariable) != "" {
		kept.Deaths = 0 // they were killed from outside
	}
	l, err := k.listen(socket)
	if err != nil {
		return withListenFlags(listenCfg, err)
	}
	kept.Listener, cfg.Kept = l, kept
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	<-caught
	k.server.Store(s)
	if err := w.Ready(); err != nil {
		return errors.Join(err, s.Close())
	}
	defer time.AfterFunc(unmapDelay, func() { trim.Program().Unmap() }).Stop()
	defer beat(w, kept.Beat, s)()
	if os.Getenv(hastyVariable) == hastyRenew {
		go w.Renew(ctx) // ends with the server, or when the keeper has answered
	}
	err = untilStopped(ctx, stop, func() error {
		err := s.Serve(ctx, l)
		if errors.Is(err, server.ErrDrained) {
			return err
		}
		return errors.Join(err, s.Close(), l.Close())
	})
	if errors.Is(err, server.ErrDrained) {
		return nil // all that is left belongs to the next worker
	}
	return errors.Join(err, w.Bye())
}

// A keptServing is a worker that begins to serve.
type keptServing struct {
	listenCfg listen.Config
	listener  *listen.Listener              // of a spare; nil: not yet opened
	server    atomic.Pointer[server.Server] // nil: it does not serve yet
}

// prepare opens the listener of a spare, so that files which are missing are found in time. Clients stay with the worker.
func (k *keptServing) prepare(socket *os.File) (err error) {
	k.listener, err = listen.Inherit(k.listenCfg, socket)
	return err
}

// listen returns the listener.
func (k *keptServing) listen(socket *os.File) (*listen.Listener, error) {
	if k.listener != nil {
		return k.listener, socket.Close()
	}
	return listen.Inherit(k.listenCfg, socket)
}

// drain lets another worker go on.
func (k *keptServing) drain(within time.Duration) {
	s := k.server.Load()
	if s == nil {
		os.Exit(exitOK) // there are no clients yet
	}
	go s.Drain(within) // ends with this process
}

// withExitStatus lets a program that cannot read the state of the server end with a status that tells the keeper so.
func withExitStatus(err error) error {
	if e, ok := errors.AsType[*worker.StateError](err); ok {
		return codedError{e.ExitStatus(), err}
	}
	return err
}

// beat tells the keeper again and again that the server works, if the keeper wants to know that, until stop is called.
func beat(w *keep.Worker, limit time.Duration, s *server.Server) (stop func()) {
	if limit == 0 {
		return func() {}
	}
	ended := make(chan struct{})
	go func() { // ends with stop, or with the process
		tick := time.NewTicker(limit / 4)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.Check()
				_ = w.Beat() // without a keeper the server ends
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}
