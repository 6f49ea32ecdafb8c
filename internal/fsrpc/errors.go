package fsrpc

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/tetherexec/tether/internal/oserr"
	"github.com/tetherexec/tether/wire"
)

// Conditions that no system call reports.
var (
	ErrSymlink = errors.New("path contains a symbolic link")
	ErrSandbox = errors.New("filesystem sandbox cannot be enforced on this executor")
)

// An Error is the refusal of a filesystem request.
type Error struct{ Err error }

func (e *Error) Error() string { return oserr.Text(e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Code is the error's code on the wire: clients tell a missing file and a
// refusal from everything else.
func (e *Error) Code() int {
	for _, refusal := range []error{ErrSymlink, ErrSandbox, fs.ErrPermission, syscall.EINVAL} {
		if errors.Is(e.Err, refusal) {
			return wire.CodeInvalidRequest
		}
	}
	if errors.Is(e.Err, fs.ErrNotExist) {
		return wire.CodeNotFound
	}
	return wire.CodeInternal
}
