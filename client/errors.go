package client

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/wording"
	"github.com/tetherexec/tether/wire"
)

// Errors to look for with errors.Is.
var (
	// ErrSessionLost means that the session is gone with everything in it, or that the
	// client cannot know: the server does not know the session any more, refused the
	// client, or did not come back in time.
	ErrSessionLost = errors.New("session lost")

	// ErrRecoveryTimeout means that the session could not be resumed before the server
	// drops it, or within Options.RecoveryTimeout. It is also an ErrSessionLost.
	ErrRecoveryTimeout = errors.New("the server did not come back in time")

	// ErrTakenOver means that another client has resumed the session, which goes on
	// there. It is also an ErrSessionLost.
	ErrTakenOver = errors.New("session was taken over by another client")

	// ErrServerStopped means that the server was shut down on purpose and has said so: all
	// its sessions have ended. It is also an ErrSessionLost.
	ErrServerStopped = errors.New("the server was shut down, and its sessions have ended with it")

	// ErrGap means that output was lost.
	ErrGap = errors.New("output was lost")

	// ErrAmbiguous means that the connection was lost after a request was sent and
	// before it was answered: it may have been carried out.
	ErrAmbiguous = errors.New("it is not known whether the request was carried out")

	// ErrUnsupported means that the server does not have the feature.
	ErrUnsupported = errors.New("not supported by this server")

	// ErrClosed means that the program has closed the client.
	ErrClosed = errors.New("client is closed")

	// ErrUnread means that Wait gave up on a reader that does not read on. The exit is
	// returned with it.
	ErrUnread = errors.New("a reader has left output of the command unread: read it to its end, or close the reader")

	// ErrReaderClosed means that the program has closed the OutputReader.
	ErrReaderClosed = errors.New("reader of the output is closed")

	// ErrSubscriptionClosed means that the program has closed the Subscription.
	ErrSubscriptionClosed = errors.New("subscription is closed")

	// ErrRemoved means that the session of an observed process has ended before all of its events were observed.
	ErrRemoved = errors.New("the session of the process has ended, and its output is gone")

	// ErrObservationClosed means that the program has closed the Observation.
	ErrObservationClosed = errors.New("observation is closed")

	// ErrUnknownProcess means that the server has no such process any more.
	ErrUnknownProcess = errors.New("unknown process")

	// ErrProcessExists means that the session already has a process with the id of a start.
	ErrProcessExists = errors.New("the session already has a process with this id")

	// ErrStdinClosed means that the process takes no more input.
	ErrStdinClosed = errors.New("standard input is closed")

	// ErrNotConnected means that a call that does not wait found no connection.
	ErrNotConnected = errors.New("the connection to the server is lost at the moment")

	// ErrTooManyCalls means that too many calls wait for their answers.
	ErrTooManyCalls = fmt.Errorf("limit reached: %d requests wait for answers of the server", maxCalls)
)

// A ProtocolError is an answer of the server that violates the protocol.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string {
	return "protocol error of the server: " + wording.Text(e.Reason)
}

func protocolError(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// sessionOver returns ErrTakenOver or ErrServerStopped if err is one of them: then the
// client does not try to resume the session. Otherwise it returns nil.
func sessionOver(err error) error {
	for _, over := range []error{ErrTakenOver, ErrServerStopped} {
		if errors.Is(err, over) {
			return over
		}
	}
	return nil
}

// A lostError is the end of a connection, before an answer came.
type lostError struct {
	cause error // nil: the server ended it properly
	sent  bool  // the request may have arrived
}

func (e *lostError) Error() string {
	if e.cause == nil {
		return "the connection was lost"
	}
	return "the connection was lost: " + connectionText(e.cause)
}

func (e *lostError) Unwrap() error { return e.cause }

// An ambiguousError is a lost connection after a request was sent that is not repeated.
type ambiguousError struct {
	lost error
	what string // may have happened, such as "the command was started"; empty: "the request was carried out"
}

func (e *ambiguousError) Error() string {
	doubt := ErrAmbiguous.Error()
	if e.what != "" {
		doubt = "it is not known whether " + e.what
	}
	return doubt + ": " + e.lost.Error()
}

func (e *ambiguousError) Unwrap() []error { return []error{ErrAmbiguous, e.lost} }

// A SessionError tells why a client has failed. It is an ErrSessionLost.
type SessionError struct {
	Loss  error // how the connection ended
	Cause error // why there was no other
}

func (e *SessionError) Error() string {
	if e.Cause == ErrTakenOver || e.Cause == ErrServerStopped {
		return e.Cause.Error()
	}
	return e.Loss.Error() + "; the session could not be resumed: " + connectionText(e.Cause)
}

// Unwrap makes errors.Is find ErrSessionLost and both reasons.
func (e *SessionError) Unwrap() []error { return []error{ErrSessionLost, e.Loss, e.Cause} }

// A timeoutError is the end of the attempts to resume a session. Its text has the reason
// of the last attempt, but it does not wrap that reason: with errors.Is, a missing socket
// would look like a missing file.
type timeoutError struct {
	after time.Duration
	last  error // nil: no attempt had ended by then
}

func (e *timeoutError) Error() string {
	s := "the server did not come back within " + shortDuration(e.after)
	if e.last != nil {
		s += "; last attempt: " + connectionText(e.last)
	}
	return s
}

func (e *timeoutError) Is(target error) bool { return target == ErrRecoveryTimeout }
func (e *timeoutError) Timeout() bool        { return true }

// shortDuration leaves out zero minutes and seconds: 25s, 24h.
func shortDuration(d time.Duration) string {
	s := d.Round(time.Millisecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// A SurvivorsError says that a session was ended, but some of its processes are still there.
type SurvivorsError struct{ Survivors []wire.Survivor }

func survivorsError(left []wire.Survivor) error {
	if len(left) == 0 {
		return nil
	}
	return &SurvivorsError{left}
}

func (e *SurvivorsError) Error() string {
	texts := make([]string, len(e.Survivors))
	for i := range e.Survivors {
		texts[i] = e.Survivors[i].Text()
	}
	return "the session was ended, but processes are still there: " + strings.Join(texts, "; ")
}
