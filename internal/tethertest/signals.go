package tethertest

import (
	"os"
	"os/signal"
	"syscall"
)

// StopIgnoringSignals makes SIGINT and SIGHUP take effect in programs that are started from
// now on. Tests may run in a background job, which ignores SIGINT, or under nohup, which
// ignores SIGHUP; programs inherit that, and a shell cannot trap such a signal.
func StopIgnoringSignals() {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
