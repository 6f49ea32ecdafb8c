package terminal

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// hangupIgnored is true if this program was started with SIGHUP ignored, as nohup does. It must
// be read before the first signal is caught.
var hangupIgnored = signal.Ignored(syscall.SIGHUP)

// EndingSignals are the signals that ask a program to end. A Session passes them on to
// its command, and harmlessSignals as well.
var EndingSignals = Heeded(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

// Heeded returns the signals, without SIGHUP if it was ignored at the start.
func Heeded(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(signals, func(s os.Signal) bool { return s == syscall.SIGHUP && hangupIgnored })
}

// maxSignals is how many signals may wait for a Session.
const maxSignals = 8

// CatchSignals sends to the channel the signals that a Session passes on, until stop is called.
func CatchSignals() (signals <-chan os.Signal, stop func()) {
	caught := make(chan os.Signal, maxSignals)
	signal.Notify(caught, EndingSignals...)
	for s := range harmlessSignals {
		signal.Notify(caught, s)
	}
	return caught, func() { signal.Stop(caught) }
}

// signalName returns the name in the protocol of a signal that CatchSignals catches.
func signalName(s os.Signal) string {
	if name, ok := harmlessSignals[s]; ok {
		return name
	}
	switch s {
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGQUIT:
		return "SIGQUIT"
	}
	return "SIGINT"
}

// A SignalError means that a signal has ended an operation.
type SignalError struct{ Signal syscall.Signal }

func (e SignalError) Error() string { return e.Signal.String() }
