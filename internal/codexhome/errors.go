package codexhome

import (
	"errors"

	"github.com/tetherexec/tether/wire"
)

// Errors of invalid requests.
var (
	errNoPaths   = errors.New("at least one config or requirements path is required")
	errEmptyPath = errors.New("TOML paths must contain at least one key segment")
)

// An Error is an error of environmentConfig/read.
type Error struct {
	Err  error
	code int
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Code is the error's code on the wire.
func (e *Error) Code() int { return e.code }

func invalid(err error) error { return &Error{Err: err, code: wire.CodeInvalidParams} }
func failed(err error) error  { return &Error{Err: err, code: wire.CodeInternal} }
