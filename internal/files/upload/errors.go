package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/tetherexec/tether/internal/oserr"
	"github.com/tetherexec/tether/wire"
)

// Conditions that callers tell apart.
var (
	ErrUnknown     = errors.New("unknown upload id")
	ErrDiffers     = errors.New("was opened with other parameters")
	ErrCommitted   = errors.New("is committed already")
	ErrInvalid     = errors.New("invalid upload")
	ErrLimit       = errors.New("limit reached")
	ErrIncomplete  = errors.New("upload is incomplete")
	ErrDigest      = errors.New("sha256 does not match")
	ErrNotRegular  = errors.New("not a regular file")
	ErrOwner       = errors.New("the owner of the existing file cannot be kept")
	ErrChanged     = errors.New("was changed by somebody else")
	ErrEnded       = errors.New("session has ended")
	ErrUnsupported = errors.New("uploads are not supported on this system")
)

// An Error is the refusal of a request about an upload. Errors of the system are
// worded as the protocol words them.
type Error struct {
	Err  error
	code int
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Code is the error's code on the wire.
func (e *Error) Code() int { return e.code }

// refuse is an error that is the client's to mend.
func refuse(sentinel error, format string, args ...any) error {
	return &Error{fmt.Errorf("%w: %s", sentinel, fmt.Sprintf(format, args...)), wire.CodeInvalidRequest}
}

// about is refuse for a sentinel that says something about an upload.
func about(id string, sentinel error) error {
	return &Error{fmt.Errorf("upload %q %w", id, sentinel), wire.CodeInvalidRequest}
}

func unknown(id string) error { return &Error{fmt.Errorf("%w %q", ErrUnknown, id), wire.CodeNotFound} }

func ended() error { return &Error{ErrEnded, wire.CodeInvalidRequest} }

// placing is what went wrong with the target of a new upload, with the code that
// fs/writeFile would give it: clients tell a missing directory and a refusal from
// everything else.
func placing(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	code := wire.CodeInternal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = wire.CodeNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EINVAL), errors.Is(err, ErrUnsupported):
		code = wire.CodeInvalidRequest
	}
	return &Error{worded{err}, code}
}

// failing is what went wrong on the way of an upload. It never has the code of an
// unknown upload: the client may try again.
func failing(doing string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return &Error{fmt.Errorf("%s: %w", doing, worded{err}), wire.CodeInternal}
}

// worded is an error in the protocol's words.
type worded struct{ err error }

func (w worded) Error() string { return oserr.Text(w.err) }
func (w worded) Unwrap() error { return w.err }
