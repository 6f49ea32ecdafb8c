package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/trim"
	"github.com/tetherexec/tether/internal/worker"
)

// hastyVariable, if set, makes the keeper replace workers at once, however often they die. Tests set it.
const hastyVariable = "TETHER_KEEPER_HASTY"

// keepServing listens, prints the URL, and makes this process the keeper of a server. If that is not possible, the
// server runs in this process.
func keepServing(ctx context.Context, listenCfg listen.Config, cfg server.Config, logJSON bool, stdin, stdout *os.File) error {
	crash.Worker(0)
	hangup := signal.Ignored(syscall.SIGHUP)
	if err := prepareServer(); err != nil {
		return err
	}
	l, err := openListener(ctx, listenCfg)
	if err != nil {
		return err
	}
	if l == nil {
		return serveAlone(ctx, listenCfg, cfg, nil, stdin, stdout) // no other client can resume the session
	}
	kept, err := newKept(cfg, l)
	if err != nil {
		cfg.Log.Warn("there is no keeper: commands and sessions end with this process", "err", err)
		return serveAlone(ctx, listenCfg, cfg, l, stdin, stdout)
	}
	if _, err := fmt.Fprintln(stdout, l.URL); err != nil {
		return errors.Join(fmt.Errorf("print URL: %w", err), kept.Close(), l.Close())
	}
	err = keep.Become(keep.Config{Args: os.Args[1:], Held: kept.Held(), LogJSON: logJSON, IgnoreHangup: hangup, Hasty: os.Getenv(hastyVariable) != ""})
	return errors.Join(err, kept.Close(), l.Close()) // the URL is printed: a client would not notice that it gets less
}

// newKept makes what the workers of a server share.
func newKept(cfg server.Config, l *listen.Listener) (*worker.State, error) {
	if err := keep.Probe(); err != nil {
		return nil, err
	}
	socket, err := l.File()
	if err != nil {
		return nil, err
	}
	return worker.NewState(cfg, socket)
}

// serveKept runs a server below a keeper: the worker.
func serveKept(ctx context.Context, listenCfg listen.Config, cfg server.Config) error {
	w, err := keep.Connect()
	if err != nil {
		return err
	}
	if err := prepareServer(); err != nil {
		return err
	}
	ctx, caught, stop, restore := serverSignals(ctx)
	defer restore()
	defer stop()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	kept, socket, err := worker.Receive(w, cfg.Log, lost)
	if err != nil {
		return err
	}
	cfg.Kept = kept
	l, err := listen.Inherit(listenCfg, socket)
	if err != nil {
		return withListenFlags(listenCfg, err)
	}
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	<-caught
	if err := w.Ready(); err != nil {
		return errors.Join(err, s.Close())
	}
	defer time.AfterFunc(unmapDelay, func() { trim.Program().Unmap() }).Stop()
	err = untilStopped(ctx, stop, func() error { return errors.Join(s.Serve(ctx, l), s.Close(), l.Close()) })
	return errors.Join(err, w.Bye())
}
