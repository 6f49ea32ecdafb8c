package sandbox

import (
	"errors"
	"fmt"
)

// An IntentError means that an intent makes no sense on this machine. Its
// text is sent to the peer.
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

// An UnenforceableError means that an intent is understood but cannot be
// enforced here. Its text is sent to the peer.
type UnenforceableError struct {
	Reason string
	err    error // the cause; may be nil
}

func (e *UnenforceableError) Error() string { return "failed to prepare process sandbox: " + e.Reason }

func (e *UnenforceableError) Unwrap() error { return e.err }

// Unenforceable returns an UnenforceableError with this reason; %w as in
// [fmt.Errorf].
func Unenforceable(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &UnenforceableError{err.Error(), errors.Unwrap(err)}
}

// A CwdError means that a process cannot start in its directory. The same
// start would fail in the same way without a sandbox.
type CwdError struct {
	Path string
	Err  error
}

func (e *CwdError) Error() string { return "cwd " + e.Path + ": " + e.Err.Error() }
func (e *CwdError) Unwrap() error { return e.Err }
