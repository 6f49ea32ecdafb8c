package proc

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tetherexec/tether/internal/files/at"
)

// ResetInherited resets what this program inherited and its children would inherit
// too: open descriptors, which are closed in children from now on, and ignored
// signals (nohup, shells in the background), which this program goes on ignoring
// but its children do not. Call it first in main: later there may be descriptors
// that are meant for children, or signal handlers.
//
// Shells that ignore SIGINT for a job in the background ignore SIGQUIT, too. The Go runtime hides that, so the
// one is taken as a sign of the other.
func ResetInherited() error {
	if err := at.CloseOnExecFrom(3); err != nil {
		return fmt.Errorf("mark inherited descriptors: %w", err)
	}
	ignored, err := ignoredSignals()
	if err != nil {
		return fmt.Errorf("find ignored signals: %w", err)
	}
	if slices.Contains(ignored, os.Signal(syscall.SIGINT)) {
		ignored = append(ignored, syscall.SIGQUIT)
	}
	if len(ignored) > 0 {
		// A signal that is handled here has its default action in a child. No
		// goroutine reads the channel, and Notify does not block.
		signal.Notify(make(chan os.Signal, 1), ignored...)
	}
	return nil
}

// ignoredSignals asks the kernel, because the runtime does not track signals that
// it never touches. SIGKILL, SIGSTOP and the signals of the C library are never in
// the list.
func ignoredSignals() ([]os.Signal, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(line, 16, 64)
	if err != nil {
		return nil, err
	}
	var ignored []os.Signal
	for n := 1; n <= 64; n++ {
		if mask&(1<<(n-1)) != 0 && n != 32 && n != 33 {
			ignored = append(ignored, syscall.Signal(n))
		}
	}
	return ignored, nil
}
