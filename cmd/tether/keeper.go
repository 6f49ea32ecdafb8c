package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/service"
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
	file    *configFlags // settings for its workers; nil: there are none
}

// define adds the flags. keeps says what a keeper is good for.
func (f *keeperFlags) define(fs *pflag.FlagSet, keeps string) {
	fs.BoolVar(&f.on, "keeper", false, keeps)
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
func (f *keeperFlags) config(logJSON bool) keep.Config {
	args, _ := ownArguments(os.Args[1:]) // run has checked the version, and the next worker may have another one
	if f.file != nil {
		args = f.file.arguments(args)
	}
	return keep.Config{Args: args, LogJSON: logJSON, Beat: time.Duration(f.frozen), Hasty: os.Getenv(hastyVariable) != ""}
}

// A keepable server can run below a keeper.
type keepable struct {
	listen  listen.Config
	flags   keeperFlags
	log     *slog.Logger
	logJSON bool // see keep.Config
	reload  *reloader

	check    func() error                                            // finds settings with which no worker could serve; nil: there are none
	state    func(socket *os.File) (*worker.State, error)            // makes what its workers share
	announce func(*listen.Listener) error                            // tells the user that it listens
	alone    func(ctx context.Context, l *listen.Listener) error     // serves without a keeper; l is nil if it is not open
	kept     func(*keptServing, worker.Events) (workerServer, error) // makes the server of a worker

	killOrphans bool // see keep.Config

	durable bool   // it does not run without a keeper
	desert  func() // if durable: ends this program, whose keeper has died, without a further change to its state
}

// serve runs the server: as the worker of a keeper, as a keeper, or alone.
func (k *keepable) serve(ctx context.Context) error {
	if err := k.flags.check(); err != nil {
		return err
	}
	_, worker := reexec.WorkerArguments(os.Args)
	switch {
	case worker:
		return k.serveKept(ctx)
	case k.durable && k.flags.off:
		return errors.New("`--durable` needs a keeper: leave out `--no-keeper`")
	case k.flags.off:
		if err := prepareServer(); err != nil {
			return err
		}
		return k.alone(ctx, nil)
	}
	return k.keep(ctx)
}

// keep listens, prints the URL, and makes this process the keeper of a server. If that is not possible, the
// server runs in this process.
func (k *keepable) keep(ctx context.Context) error {
	crash.Worker(0)
	keeper := k.flags.config(k.logJSON)
	keeper.KillOrphans = k.killOrphans
	if err := prepareServer(); err != nil {
		return err
	}
	if k.check != nil {
		if err := k.check(); err != nil {
			return err
		}
	}
	begun, err := beginKeeping(k.listen)
	if err != nil && k.durable {
		return fmt.Errorf("`--durable` needs a keeper, and there can be none: %w", err)
	}
	if err != nil {
		k.flags.warn(ctx, k.log, err)
		return k.alone(ctx, nil)
	}
	l, err := k.openListener(ctx)
	if err != nil || l == nil { // without a listener no other client could connect
		begun.Cancel()
	}
	switch {
	case err != nil:
		return err
	case l == nil && k.durable:
		return errors.New("`--durable` needs a `--listen` URL that clients can come back to, not stdio")
	case l == nil:
		return k.alone(ctx, nil)
	}
	state, err := k.newState(l)
	if err != nil && k.durable {
		begun.Cancel()
		return errors.Join(withStateDirFlag(err), l.Close())
	}
	if err != nil {
		begun.Cancel()
		k.flags.warn(ctx, k.log, err)
		return k.alone(ctx, l)
	}
	keeper.Held, keeper.Notice = state.Held(), state.Notice
	keeper.Announce = func() error {
		defer brokenPipeIsError()()
		return k.announce(l)
	}
	keeper.Abandon = func() {
		state.Close()
		l.Close()
	}
	err = begun.Become(keeper) // the URL may be printed: a client would not notice that it gets less
	keeper.Abandon()
	begun.Cancel()
	return err
}

// endingPatience is how long a durable server waits for the address that it listens on: the last process of the server before it, which
// was killed, may still be ending.
const endingPatience = 5 * time.Second

// openListener opens the listener.
func (k *keepable) openListener(ctx context.Context) (*listen.Listener, error) {
	for deadline := time.Now().Add(endingPatience); ; {
		l, err := openListener(ctx, k.listen)
		inUse := errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, listen.ErrListening)
		if !k.durable || !inUse || time.Now().After(deadline) {
			return l, err
		}
		select {
		case <-time.After(endingPatience / 250):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// printURL prints the URL of a server.
func printURL(stdout *os.File, l *listen.Listener) error {
	if _, err := fmt.Fprintln(stdout, l.URL); err != nil {
		return fmt.Errorf("print URL: %w", err)
	}
	return nil
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

// newState makes what the workers of a server share.
func (k *keepable) newState(l *listen.Listener) (*worker.State, error) {
	socket, err := l.File()
	if err != nil {
		return nil, err
	}
	state, err := k.state(socket)
	if err != nil {
		socket.Close()
	}
	return state, err
}

// A workerServer is the server of a worker.
type workerServer interface {
	// Serve serves until ctx ends. After Drain it returns listen.ErrLeft, maybe wrapped: what is left belongs to the next worker.
	Serve(ctx context.Context, l *listen.Listener) error
	Drain(within time.Duration) // lets another worker go on
	Check()                     // returns when the server can do something
	Close() error               // ends everything
}

// A keptServing is a worker that begins to serve.
type keptServing struct {
	worker    *keep.Worker
	listenCfg listen.Config
	listener  *listen.Listener // nil: not yet opened
	reload    *reloader
	settings  *serverSettings              // what an earlier worker has read; nil: none has, or it was the same as at the start
	beat      time.Duration                // how often the keeper wants a sign of life; 0: never
	server    atomic.Pointer[workerServer] // nil: it does not serve yet
}

// serveKept runs a server below a keeper: the worker.
func (k *keepable) serveKept(ctx context.Context) error {
	runtime.UnlockOSThread() // see main
	w, err := keep.Connect()
	if err != nil {
		return err
	}
	if err := prepareServer(); err != nil {
		return err
	}
	service.Forget()
	ctx, caught, stop, restore := serverSignals(ctx)
	defer restore()
	defer stop()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	if k.durable {
		ctx = k.unlessOrphaned(ctx, w)
	}
	serving := &keptServing{worker: w, listenCfg: k.listen, reload: k.reload}
	hangups := make(chan os.Signal, 1)
	s, err := k.kept(serving, worker.Events{
		Drain: serving.drain,
		Reload: func() {
			select {
			case hangups <- syscall.SIGHUP:
			default: // the settings will be read after this
			}
		},
		Lost: func(err error) { lost(fmt.Errorf("%w: %w", errKeeperLost, err)) },
	})
	if err != nil {
		return withExitStatus(err)
	}
	l := serving.listener
	k.reload.listener, k.reload.keep = l, func(taken []string) error { return worker.KeepSettings(w, taken) }
	defer k.reload.on(hangups)()
	<-caught
	serving.server.Store(&s)
	if err := w.Ready(); err != nil {
		return errors.Join(err, s.Close())
	}
	defer time.AfterFunc(unmapDelay, func() { trim.Program().Unmap() }).Stop()
	defer every(serving.beat/4, func() {
		s.Check()
		_ = w.Beat() // without a keeper the server ends
	})()
	if os.Getenv(hastyVariable) == hastyRenew {
		go w.Renew(ctx) // ends with the server, or when the keeper has answered
	}
	err = untilStopped(ctx, stop, func() error {
		err := s.Serve(ctx, l)
		if errors.Is(err, listen.ErrLeft) {
			return err
		}
		return errors.Join(err, s.Close(), l.Close())
	})
	if errors.Is(err, listen.ErrLeft) {
		return nil
	}
	return errors.Join(err, w.Bye())
}

// errKeeperLost means that the socket of the keeper was closed: it has died.
var errKeeperLost = errors.New("the keeper is gone")

// unlessOrphaned returns a context that ends with ctx, except if that ends because the keeper has died: then this worker leaves
// everything to the next server, and does not return.
func (k *keepable) unlessOrphaned(ctx context.Context, w *keep.Worker) context.Context {
	going, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errKeeperLost) || w.Orphaned() {
			k.desert()
		}
		stop(context.Cause(ctx))
	})
	return going
}

// prepare opens the listener of a spare, so that files which are missing are found in time. Clients stay with the worker.
func (k *keptServing) prepare(door worker.Door) error {
	if err := k.restore(door); err != nil {
		return err
	}
	l, err := listen.Inherit(k.listenCfg, door.Socket)
	k.listener = l
	return withListenFlags(k.listenCfg, err)
}

// listen opens the listener. If prepare has done it, the earlier worker may have read other tokens and certificates since.
func (k *keptServing) listen(door worker.Door) error {
	if k.listener == nil {
		return k.prepare(door)
	}
	door.Socket.Close()
	if err := k.restore(door); err != nil {
		return err
	}
	_, err := k.listener.ReloadTokens(k.listenCfg.Auth)
	if err == nil {
		_, err = k.listener.ReloadCertificates(k.listenCfg.TLS)
	}
	return withListenFlags(k.listenCfg, err)
}

// restore puts the settings of the configuration file into force that an earlier worker has read.
func (k *keptServing) restore(door worker.Door) error {
	if door.Settings == nil {
		return nil
	}
	s, err := k.reload.restore(door.Settings)
	if err == nil {
		k.settings, k.listenCfg = s, s.listen
	}
	return err
}

// drain lets another worker go on.
func (k *keptServing) drain(within time.Duration) {
	s := k.server.Load()
	if s == nil {
		os.Exit(exitOK) // there are no clients yet
	}
	go (*s).Drain(within) // ends with this process
}

// withExitStatus lets a program that cannot read the state of the server end with a status that tells the keeper so.
func withExitStatus(err error) error {
	if e, ok := errors.AsType[*worker.StateError](err); ok {
		return codedError{e.ExitStatus(), err}
	}
	return err
}

// every calls f again and again, until stop is called. It never does if interval is 0.
func every(interval time.Duration, f func()) (stop func()) {
	if interval <= 0 {
		return func() {}
	}
	stopped := make(chan struct{})
	go func() { // ends with stop, or with the process
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
			case <-stopped:
				return
			}
		}
	}()
	return func() { close(stopped) }
}
