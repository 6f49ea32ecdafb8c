package sandbox

import (
	"errors"
	"fmt"
)

// An IntentError says that an intent makes no sense on this machine. Its text
// is meant for the peer.
type IntentError struct {
	text string
	err  error // may be nil
}

func (e *IntentError) Error() string {
	if e.err != nil {
		return e.text + ": " + e.err.Error()
	}
	return e.text
}

func (e *IntentError) Unwrap() error { return e.err }

// An UnenforceableError says that an intent is understood but cannot be kept
// here. Its text is meant for the peer.
type UnenforceableError struct {
	Reason string
	err    error // behind it; may be nil
}

func (e *UnenforceableError) Error() string { return "failed to prepare process sandbox: " + e.Reason }

func (e *UnenforceableError) Unwrap() error { return e.err }

// Unenforceable returns an UnenforceableError with this reason; %w as in
// [fmt.Errorf].
func Unenforceable(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &UnenforceableError{err.Error(), errors.Unwrap(err)}
}

// A CwdError says that a process cannot start where it was told to. It is the
// error that the same start would meet without a sandbox.
type CwdError struct {
	Path string
	Err  error
}

func (e *CwdError) Error() string { return "cwd " + e.Path + ": " + e.Err.Error() }
func (e *CwdError) Unwrap() error { return e.Err }
