package web

import (
	"errors"
	"fmt"

	"github.com/tetherexec/tether/wire"
)

// bodyFailure is the text for a body that ended too early, for any cause: a reset, a timeout, a
// wrong length, bad chunks.
const bodyFailure = "error decoding response body"

// Causes of an Error, to look for with errors.Is.
var (
	ErrClosed       = errors.New("http client is closed")
	ErrBodyTooLarge = errors.New("body is too large for one answer")
)

// An Error is the refusal or failure of a request. Its text is for the client; Unwrap returns the
// cause, which is for the log.
type Error struct {
	code  int
	text  string
	cause error
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.cause }

// Code is the error's code on the wire.
func (e *Error) Code() int { return e.code }

// invalid is the error of parameters that are refused.
func invalid(format string, args ...any) *Error {
	return &Error{code: wire.CodeInvalidParams, text: "http/request " + fmt.Sprintf(format, args...)}
}

// failed is the error of a request without an answer. Clients retry when they see this prefix.
func failed(cause error, format string, args ...any) *Error {
	return &Error{
		code:  wire.CodeInternal,
		text:  "http/request failed: " + fmt.Sprintf(format, args...),
		cause: cause,
	}
}

// noAnswer is the error of a request to u that got no answer.
func noAnswer(u *target, cause error) *Error {
	return failed(cause, "error sending request for url (%s)", u)
}

// badBody is the error of an answer whose body could not be read to its end.
func badBody(reason string, cause error) *Error {
	return &Error{
		code:  wire.CodeInternal,
		text:  "failed to read http/request response body: " + reason,
		cause: cause,
	}
}
