package terminal

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// hangupIgnored: the program that started us wants SIGHUP ignored, as nohup does. It is
// asked before a signal is handled.
var hangupIgnored = signal.Ignored(syscall.SIGHUP)

// EndingSignals are the signals that ask a program to end. A Session passes them on to
// its command, and harmlessSignals as well.
var EndingSignals = Heeded(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

// Heeded leaves out SIGHUP if it is to be ignored.
func Heeded(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(signals, func(s os.Signal) bool { return s == syscall.SIGHUP && hangupIgnored })
}

// maxSignals is how many signals wait until a Session takes them.
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

// signalName is how the protocol calls a signal that CatchSignals catches.
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

// A SignalError means that a signal has ended what was being done.
type SignalError struct{ Signal syscall.Signal }

func (e SignalError) Error() string { return e.Signal.String() }
