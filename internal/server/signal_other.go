//go:build !unix

package server

import (
	"syscall"

	"github.com/tetherexec/tether/wire"
)

func signalNumber(name string) (syscall.Signal, error) {
	return 0, wire.Errorf(wire.CodeInvalidParams, "signal `%s` is not supported on this system", name)
}
