//go:build unix

package server

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/wire"
)

// signalNumber is this system's number of a signal such as "SIGTERM".
func signalNumber(name string) (syscall.Signal, error) {
	if n := unix.SignalNum(name); n != 0 {
		return n, nil
	}
	return 0, wire.Errorf(wire.CodeInvalidParams, "unknown signal `%s`", name)
}
