package session

import (
	"errors"
	"fmt"

	"github.com/tetherexec/tether/wire"
)

// Conditions that callers distinguish. A text without a subject follows the id that it
// is about.
var (
	ErrUnknownSession = errors.New("unknown session id")
	ErrAttached       = errors.New("is already attached to another connection")
	ErrResumed        = errors.New(wire.ReasonResumed)
	ErrEnded          = errors.New("session has ended")
	ErrLimit          = errors.New("limit reached")
	ErrAside          = errors.New("was set aside: the server has crashed each time it took the session over. Its commands run until the server ends")

	ErrProcessExists   = errors.New("already exists")
	ErrUnknownProcess  = errors.New("unknown process id")
	ErrClosed          = errors.New("has ended")
	ErrProcessStarting = errors.New("is starting")
	ErrStartCancelled  = errors.New("start was cancelled")
	ErrRetryDiffers    = errors.New("was started with other parameters")

	ErrEmptyWriteID = errors.New("writeId must not be empty")
	ErrWriteReused  = errors.New("was used before with other bytes")
	ErrOnceReused   = errors.New("was used before for something else")
)

// Limits of a server and of its sessions. Other limits stand where they are used.
const (
	MaxSessions  = 10_000
	MaxProcesses = 4096 // per session, including closed processes that are kept or have left children running
	MaxObservers = 64   // per session
)

func limitReached(n int, what string) error {
	return fmt.Errorf("%w: %d %s", ErrLimit, n, what)
}
