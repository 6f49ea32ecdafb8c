package client

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/wording"
	"github.com/tetherexec/tether/wire"
)

// A ServerError is an answer by which the server refuses a request. Its text is for
// people; its fields are from the answer.
type ServerError struct {
	Method  string // of the request
	Code    int    // such as wire.CodeNotFound
	Message string
	Reason  string // such as wire.ErrorUnknownProcess, from tether's own methods; may be empty
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
	case ErrProcessExists:
		return e.Method == wire.MethodProcessStart && e.is(processExists)
	case ErrUnknownProcess:
		return e.is(wire.ErrorUnknownProcess)
	case ErrStdinClosed:
		return e.is(wire.ErrorStdinClosed)
	}
	return false
}

// Reasons that an answer states only in its text, see refusalTexts.
const (
	fileExists      = "fileExists"
	filePermission  = "filePermission"
	processExists   = "processExists"
	processStarting = "processStarting"
	transportClosed = "transportClosed"
)

// refusalTexts are the conditions that methods of the reference state only in the text of their
// errors: neither the code nor the data tells them apart. tether's server uses the same texts.
// Errors of tether's own methods have a reason instead.
//
// This file has all texts of exec-servers by which the client decides what to do: this table,
// ServerError.OSError and connectionEnd. unreachable.go chooses only the words of messages by
// texts, and dial.go recognizes HTTPS servers, which are no exec-servers, by theirs.
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

// errReplaced means that another process replaces that of the server. What the server had not answered then, it
// has not carried out.
var errReplaced = errors.New("the server is being replaced")

// connectionEnd returns ErrTakenOver, ErrServerStopped or errReplaced if the server has closed the connection
// for that reason; its text if it asks the client to try again later; nil if the connection ended normally; otherwise err. A close frame has only a
// code and a text, and other servers and proxies use the same codes.
func connectionEnd(err error) error {
	switch e, closed := errors.AsType[*rpc.CloseError](err); {
	case closed && e.Code == rpc.ClosePolicy && strings.HasSuffix(e.Reason, wire.ReasonResumed):
		return ErrTakenOver
	case closed && e.Code == rpc.CloseGoingAway && strings.HasSuffix(e.Reason, wire.ReasonStopping):
		return ErrServerStopped
	case closed && e.Code == rpc.CloseRestart && strings.HasSuffix(e.Reason, wire.ReasonReplaced):
		return errReplaced
	case closed && e.Code == rpc.CloseTryAgain && errors.Is(err, io.EOF):
		return errors.New(strings.TrimPrefix(e.Reason, "closed by the peer: "))
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
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
