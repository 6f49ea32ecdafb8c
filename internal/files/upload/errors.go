package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/tetherexec/tether/internal/oserr"
	"github.com/tetherexec/tether/wire"
)

// Errors that callers distinguish.
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
	ErrChanged     = errors.New("was changed by another program")
	ErrEnded       = errors.New("session has ended")
	ErrUnsupported = errors.New("uploads are not supported on this system")
)

// An Error is the error of a request about an upload. Errors of the system have
// the words of the protocol.
type Error struct {
	Err  error
	code int
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Code returns the error's code on the wire.
func (e *Error) Code() int { return e.code }

// refuse returns an error that the client can correct.
func refuse(sentinel error, format string, args ...any) error {
	return &Error{fmt.Errorf("%w: %s", sentinel, fmt.Sprintf(format, args...)), wire.CodeInvalidRequest}
}

// about is refuse for a sentinel that completes a sentence about an upload.
func about(id string, sentinel error) error {
	return &Error{fmt.Errorf("upload %q %w", id, sentinel), wire.CodeInvalidRequest}
}

func unknown(id string) error { return &Error{fmt.Errorf("%w %q", ErrUnknown, id), wire.CodeNotFound} }

func ended() error { return &Error{ErrEnded, wire.CodeInvalidRequest} }

// placing returns the error about the target of a new upload, with the code that
// fs/writeFile would use: clients distinguish a missing directory and a refusal
// from everything else.
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

// failing returns an error in the course of an upload. It never has the code of
// an unknown upload: the client may try again.
func failing(doing string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return &Error{fmt.Errorf("%s: %w", doing, worded{err}), wire.CodeInternal}
}

// worded is an error in the words of the protocol.
type worded struct{ err error }

func (w worded) Error() string { return oserr.Text(w.err) }
func (w worded) Unwrap() error { return w.err }
