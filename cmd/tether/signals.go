package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/tetherexec/tether/internal/terminal"
)

// untilSignal returns a context that ends with the first of the signals, by default with
// one of terminal.EndingSignals; the cause is a terminal.SignalError. Further signals
// have no effect until stop is called, which also ends the context.
func untilSignal(ctx context.Context, signals ...os.Signal) (_ context.Context, stop func()) {
	ctx, ready, stop := watchSignals(ctx, func() {}, signals...)
	<-ready
	return ctx, stop
}

// watchSignals is untilSignal for a program that has other work until ready is closed: the runtime
// needs a third of a millisecond to catch its first signals. Until then a signal has its usual effect.
// first is called before, in the same goroutine.
func watchSignals(ctx context.Context, first func(), signals ...os.Signal) (_ context.Context, ready <-chan struct{}, stop func()) {
	if len(signals) == 0 {
		signals = terminal.EndingSignals
	}
	ctx, cancel := context.WithCancelCause(ctx)
	caught, watched := make(chan os.Signal, 1), make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { // ends with the channel, which stop closes
		first()
		signal.Notify(caught, signals...)
		close(watched)
		for s := range caught {
			number, _ := s.(syscall.Signal)
			cancel(terminal.SignalError{Signal: number})
		}
	})
	return ctx, watched, sync.OnceFunc(func() {
		<-watched
		signal.Stop(caught)
		close(caught)
		watching.Wait()
		cancel(nil)
	})
}

// interruptible is untilSignal for commands that may take long to end: the second signal
// has its usual effect.
func interruptible(ctx context.Context) (_ context.Context, stop func()) {
	ctx, stop = untilSignal(ctx, terminal.Heeded(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// orSignal returns the exit code of a signal if err is not nil and a signal has ended the
// context, and otherwise err.
func orSignal(ctx context.Context, err error) error {
	if s, ok := errors.AsType[terminal.SignalError](context.Cause(ctx)); ok && err != nil {
		return signaled(s)
	}
	return err
}

// signaled returns the exit code of a program that a signal has ended.
func signaled(s terminal.SignalError) codedError {
	return codedError{code: exitSignal + int(s.Signal)}
}

// interruptIgnored reports whether this program was started with SIGINT ignored, as a job in the background of a script. It has to be
// read before the first signal is caught.
var interruptIgnored = signal.Ignored(os.Interrupt)

// serverSignals is watchSignals and brokenPipeIsError for a server.
func serverSignals(ctx context.Context) (_ context.Context, ready <-chan struct{}, stop, restore func()) {
	var broken func()
	signals := []os.Signal{syscall.SIGTERM}
	if !interruptIgnored {
		signals = append(signals, os.Interrupt)
	}
	ctx, ready, stop = watchSignals(ctx, func() { broken = brokenPipeIsError() }, signals...)
	return ctx, ready, stop, func() {
		<-ready
		broken()
	}
}

// brokenPipeIsError makes a write to a standard output or standard error that is closed at
// its other end fail with EPIPE, instead of ending the program by SIGPIPE, until restore is
// called. The signal is caught and not ignored, because commands that tether starts would inherit
// an ignored signal.
func brokenPipeIsError() (restore func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGPIPE)
	return func() { signal.Stop(caught) }
}
