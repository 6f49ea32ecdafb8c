package client

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/tetherexec/tether/internal/wording"
	"github.com/tetherexec/tether/wire"
)

// A ServerError is an answer by which the server refuses a request. Its text is for
// people; its fields are from the answer.
type ServerError struct {
	Method  string // of the request
	Code    int    // wire.CodeNotFound and its like
	Message string
	Reason  string // wire.ErrorUnknownProcess and its like, of tether's own methods; may be empty
}

func serverError(method string, e *wire.Error) error {
	return &ServerError{method, e.Code, e.Message, e.Reason()}
}

func (e *ServerError) Error() string {
	text := wording.Text(e.Message)
	if e.Method == wire.MethodProcessStart && strings.HasSuffix(e.Message, ")") && e.OSError() != 0 {
		return "the command cannot be started: " + text // the server's text is only the error of its system
	}
	return text
}

// OSError is the number of the operating system's error in the server's text; zero: there
// is none.
func (e *ServerError) OSError() syscall.Errno {
	number, _ := wording.OSError(e.Message)
	return number
}

// Is lets errors.Is find errors of this package, and those of package fs for refused
// requests about files.
func (e *ServerError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Code == wire.CodeNotFound
	case fs.ErrExist:
		return e.is(fileExists)
	case fs.ErrPermission:
		return e.is(filePermission)
	case ErrUnknownProcess:
		return e.is(wire.ErrorUnknownProcess)
	case ErrStdinClosed:
		return e.is(wire.ErrorStdinClosed)
	}
	return false
}

// Reasons that only the text of an answer tells, see refusalTexts.
const (
	fileExists      = "fileExists"
	filePermission  = "filePermission"
	processExists   = "processExists"
	processStarting = "processStarting"
	transportClosed = "transportClosed"
)

// refusalTexts are the conditions that the reference's methods tell by nothing but their text.
// This is the only place where the text of an answer decides anything.
var refusalTexts = []struct {
	reason  string
	matches func(text, part string) bool
	part    string
}{
	{fileExists, strings.HasSuffix, "(os error 17)"},
	{fileExists, equal, "directory already exists"},
	{filePermission, strings.HasSuffix, "(os error 13)"},
	{filePermission, strings.HasSuffix, "(os error 1)"},
	{processExists, strings.Contains, "already exists"},
	{processStarting, strings.Contains, "is starting"},
	{wire.ErrorUnknownProcess, strings.HasPrefix, "unknown process id "},
	{wire.ErrorStdinClosed, equal, "stdin is closed"},
	{wire.ErrorStdinClosed, equal, "failed to write to process stdin"}, // it is being terminated
	{transportClosed, equal, "JSON-RPC transport closed"},              // the server's own end of a connection
}

func equal(text, part string) bool { return text == part }

// is reports whether the server refused for a reason: by the reason in the answer, or if
// the answer has none, by its text.
func (e *ServerError) is(reason string) bool {
	if e.Reason != "" {
		return e.Reason == reason
	}
	for _, r := range refusalTexts {
		if r.reason == reason && r.matches(e.Message, r.part) {
			return true
		}
	}
	return false
}

// refusedFor reports whether err is an answer that refuses for a reason.
func refusedFor(err error, reason string) bool {
	e, ok := errors.AsType[*ServerError](err)
	return ok && e.is(reason)
}

// hasCode reports whether err is an answer of the server with this code.
func hasCode(err error, code int) bool {
	e, ok := errors.AsType[*ServerError](err)
	return ok && e.Code == code
}
