package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/tetherexec/tether/internal/oserr"
	"github.com/tetherexec/tether/wire"
)

// A refusal is a condition that no system call reports. It has a code and a
// text of the wire.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// Conditions that no system call reports. Each is an *[Error].
var (
	ErrSymlink  = failed(refuse(wire.CodeInvalidRequest, "path contains a symbolic link"))
	ErrSandbox  = failed(refuse(wire.CodeInvalidRequest, "filesystem sandbox cannot be enforced on this executor"))
	ErrTooLarge = failed(refuse(wire.CodeInvalidRequest, "file is too large to read: limit is %d bytes", MaxReadFile))
)

var (
	errNotRegular = refuse(wire.CodeInvalidRequest, "path is not a regular file")
	errNoEntry    = refuse(wire.CodeInvalidRequest, "path must name an entry")
	errNUL        = refuse(wire.CodeInvalidRequest, "file name contained an unexpected NUL byte")
	errRelative   = refuse(wire.CodeInvalidRequest, "path is not absolute")

	errDirectoryExists   = refuse(wire.CodeInternal, "directory already exists")
	errRecursiveNoFollow = refuse(wire.CodeInternal, "recursive no-follow removal is unsupported")

	errWalkZero    = refuse(wire.CodeInvalidRequest, "filesystem walk limits must be greater than zero")
	errWalkMaximum = refuse(wire.CodeInvalidRequest, "filesystem walk limits exceed maximums: depth=%d, directories=%d, entries=%d",
		MaxWalkDepth, MaxWalkDirs, MaxWalkEntries)

	errCopyDirectory = refuse(wire.CodeInvalidRequest, "fs/copy requires recursive: true when sourcePath is a directory")
	errCopyIntoSelf  = refuse(wire.CodeInvalidRequest, "fs/copy cannot copy a directory to itself or one of its descendants")
	errCopyKind      = refuse(wire.CodeInvalidRequest, "fs/copy only supports regular files, directories, and symlinks")
)

func errNotFile(path string) error {
	return refuse(wire.CodeInvalidRequest, "path `%s` is not a file", lossy(path))
}

func errDirectorySize(entries int) error {
	return refuse(wire.CodeInternal, "fs/readDirectory returned %d entries; limit is %d", entries, MaxDirectory)
}

// ErrElsewhere means that another process has to serve a request: see [Screened].
var ErrElsewhere = errors.New("another process has to serve this request")

// An Error is the error of a file request.
type Error struct{ Err error }

// NewError returns an error with a code and text that were decided elsewhere:
// a helper's response is passed on.
func NewError(code int, text string) *Error { return &Error{&refusal{code, text}} }

func (e *Error) Error() string { return oserr.Text(e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Code returns the error's code on the wire: clients distinguish a missing
// file and a refusal from everything else.
func (e *Error) Code() int {
	if r, ok := errors.AsType[*refusal](e.Err); ok {
		return r.code
	}
	if errors.Is(e.Err, fs.ErrPermission) || errors.Is(e.Err, syscall.EINVAL) {
		return wire.CodeInvalidRequest
	}
	if errors.Is(e.Err, fs.ErrNotExist) {
		return wire.CodeNotFound
	}
	return wire.CodeInternal
}

// failed wraps err as the error of a request; nil stays nil.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{err}
}

// cancelled returns the reason why ctx has ended, nil while it has not.
func cancelled(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
