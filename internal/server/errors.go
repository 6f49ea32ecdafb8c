package server

import (
	"errors"
	"strings"

	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/search"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/shellsnap"
	"github.com/tetherexec/tether/wire"
)

// codes maps the conditions that other packages detect to codes of the wire. Other
// errors come from the operating system and are sent as internal errors with their
// text.
var codes = []struct {
	err  error
	code int
}{
	{session.ErrAttached, wire.CodeSessionAttached},
	{session.ErrUnknownSession, wire.CodeInvalidRequest},
	{session.ErrAside, wire.CodeInvalidRequest},
	{session.ErrResumed, wire.CodeInvalidRequest},
	{session.ErrEnded, wire.CodeInvalidRequest},
	{session.ErrLimit, wire.CodeInvalidRequest},
	{session.ErrProcessExists, wire.CodeInvalidRequest},
	{session.ErrRetryDiffers, wire.CodeInvalidRequest},
	{session.ErrUnknownProcess, wire.CodeInvalidRequest},
	{session.ErrClosed, wire.CodeInvalidRequest},
	{session.ErrProcessStarting, wire.CodeInvalidRequest},
	{session.ErrStartCancelled, wire.CodeInvalidRequest},
	{search.ErrTooFast, wire.CodeInvalidRequest},
	{launch.ErrEmptyArgv, wire.CodeInvalidParams},
	{session.ErrEmptyWriteID, wire.CodeInvalidParams},
	{session.ErrWriteReused, wire.CodeInvalidParams},
	{session.ErrOnceReused, wire.CodeInvalidParams},
	{launch.ErrSandbox, wire.CodeInvalidParams},
	{launch.ErrInvalidCwd, wire.CodeInvalidParams},
	{launch.ErrNetworkProxy, wire.CodeInvalidParams},
	{launch.ErrDecisionTimeout, wire.CodeInvalidParams},
	{launch.ErrCallbackID, wire.CodeInvalidParams},
	{shellsnap.ErrScope, wire.CodeInvalidParams},
	{shellsnap.ErrShell, wire.CodeInvalidParams},
	{rpc.ErrNoRoom, wire.CodeInvalidRequest},
	{ports.ErrDenied, wire.CodeInvalidRequest},
	{ports.ErrNowhere, wire.CodeInvalidRequest},
	{ports.ErrUnreachable, wire.CodeInvalidRequest},
	{ports.ErrNoListening, wire.CodeInvalidRequest},
	{ports.ErrNotLocal, wire.CodeInvalidRequest},
	{ports.ErrNotFree, wire.CodeInvalidRequest},
	{ports.ErrNoListener, wire.CodeInvalidRequest},
	{ports.ErrUnknown, wire.CodeInvalidRequest},
	{ports.ErrMissing, wire.CodeInvalidRequest},
	{ports.ErrClosed, wire.CodeInvalidRequest},
	{ports.ErrLimit, wire.CodeInvalidRequest},
	{ports.ErrInvalid, wire.CodeInvalidParams},
	{ports.ErrDiffers, wire.CodeInvalidParams},
	{proc.ErrNotTTY, wire.CodeInvalidRequest},
	{proc.ErrNoEOF, wire.CodeInvalidRequest},
	{proc.ErrStdinClosed, wire.CodeInvalidRequest},
	{proc.ErrTerminated, wire.CodeInvalidRequest},
}

// reasons distinguishes, for programs, conditions that have the same code, in errors of
// methods under tether/. Methods of the reference have no reasons, because the reference
// sends none.
var reasons = []struct {
	err    error
	reason string
}{
	{session.ErrUnknownProcess, wire.ErrorUnknownProcess},
	{proc.ErrStdinClosed, wire.ErrorStdinClosed},
	{proc.ErrTerminated, wire.ErrorStdinClosed},
	{ports.ErrDenied, wire.ErrorPortDenied},
	{ports.ErrNowhere, wire.ErrorPortDenied},
	{ports.ErrNoListening, wire.ErrorPortDenied},
	{ports.ErrNotLocal, wire.ErrorPortDenied},
	{ports.ErrUnreachable, wire.ErrorPortRefused},
	{ports.ErrNotFree, wire.ErrorPortRefused},
	{ports.ErrNoListener, wire.ErrorUnknownListener},
	{ports.ErrUnknown, wire.ErrorUnknownPort},
	{ports.ErrMissing, wire.ErrorUnknownPort},
	{upload.ErrDiffers, wire.ErrorUploadDiffers},
	{upload.ErrDigest, wire.ErrorDigestMismatch},
}

// explain adds the reason of an error to the answer to a request.
func explain(method string, e *wire.Error, err error) *wire.Error {
	if !strings.HasPrefix(method, "tether/") {
		return e
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return e.WithReason(r.reason)
		}
	}
	return e
}

// A coded error knows its code: errors of file requests, uploads, HTTP requests and
// configuration files.
type coded interface {
	error
	Code() int
}

// wireError is the only place where a Go error becomes a JSON-RPC error.
func wireError(err error) *wire.Error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[coded](err); ok {
		return wire.Errorf(e.Code(), "%v", e)
	}
	if _, ok := errors.AsType[*proc.LimitError](err); ok {
		return wire.Errorf(wire.CodeInvalidParams, "%v With `bestEffort` (`--best-effort`) the command starts with what can be enforced.", err)
	}
	if refusedSandbox(err) {
		return wire.Errorf(wire.CodeInvalidParams, "%v", err)
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return wire.Errorf(c.code, "%v", err)
		}
	}
	return wire.Errorf(wire.CodeInternal, "%v", err)
}

// refusedSandbox reports whether the error is about a sandbox that is invalid or
// cannot be enforced on this machine.
func refusedSandbox(err error) bool {
	if _, ok := errors.AsType[*sandbox.IntentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*sandbox.UnenforceableError](err)
	return ok
}
