package main

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/terminal"
)

// The first signal ends the context and is its cause; further signals have no effect. The test is
// not parallel, because the signal is for the whole process.
func TestUntilSignal(t *testing.T) {
	ctx, stop := untilSignal(t.Context(), syscall.SIGUSR1)
	defer stop()
	if err := orSignal(ctx, errOther); err != errOther {
		t.Errorf("before the signal: %v", err)
	}
	for range 3 {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); cause != (terminal.SignalError{Signal: syscall.SIGUSR1}) {
		t.Errorf("cause %v", cause)
	}
	if err := orSignal(ctx, errOther); err != (codedError{code: exitSignal + int(syscall.SIGUSR1)}) {
		t.Errorf("after the signal: %v", err)
	}
	if err := orSignal(ctx, nil); err != nil {
		t.Errorf("a success: %v", err)
	}
}

var errOther = errors.New("another error")
