package session

import (
	"time"

	"github.com/tetherexec/tether/wire"
)

// Events are what the owner of a Table wants to know, to count and record it. The functions must return at once. A nil function is not
// called.
type Events struct {
	Session func(SessionEvent, *Session)                    // it may be called with locks held, and may only read the Identity
	Start   func(p *Process, took time.Duration, err error) // a start has succeeded or failed
	Exit    func(p *Process, code int)                      // see proc.Sink

	Decision func(*Session, wire.NetworkDecision) // about a host that a process wants to reach
}

// A SessionEvent is what happens to a session.
type SessionEvent uint8

const (
	Opened    SessionEvent = iota
	Resumed                // on another connection
	TakenOver              // from a connection that does not answer; Resumed follows
	Expired                // its time to live is over; Ended follows
	Ended                  // nothing is left of it
)

func (e SessionEvent) String() string {
	return [...]string{Opened: "opened", Resumed: "resumed", TakenOver: "takenOver", Expired: "expired", Ended: "ended"}[e]
}

func (e *Events) session(what SessionEvent, s *Session) {
	if e.Session != nil {
		e.Session(what, s)
	}
}

func (e *Events) start(p *Process, took time.Duration, err error) {
	if e.Start != nil {
		e.Start(p, took, err)
	}
}

func (e *Events) exit(p *Process, code int) {
	if e.Exit != nil {
		e.Exit(p, code)
	}
}

// StartRecorded notes that the start of a process is recorded, and reports whether it was before: a client may ask for the same start again.
func (p *Process) StartRecorded() (before bool) { return p.recorded.Swap(true) }

// Owner is the session of a process.
func (p *Process) Owner() *Session { return p.session }

// Began is when the start of a process began.
func (p *Process) Began() time.Time { return p.began }

// TraceID is the id of the trace that it belongs to; "": there is none.
func (p *Process) TraceID() string {
	if p.Command.Trace == nil {
		return ""
	}
	return p.Command.Trace.ID
}

// Program is the first word of its command line.
func (p *Process) Program() string { return p.params.Argv[0] }

func (s *Session) decided(d wire.NetworkDecision) {
	if f := s.table.config.Events.Decision; f != nil {
		f(s, d)
	}
}

// The ways in which a process can exit.
const (
	ExitSuccess    = "success"    // code 0
	ExitFailure    = "failure"    // another code up to 128
	ExitSignal     = "signal"     // a signal has ended it, or it says so: 128 + the number of the signal
	ExitTerminated = "terminated" // a client or the end of its session has ended it
	ExitLimit      = "limit"      // it has reached a limit
	ExitUnknown    = "unknown"    // the system does not say
)

// ExitKinds are all of them.
var ExitKinds = []string{ExitSuccess, ExitFailure, ExitSignal, ExitTerminated, ExitLimit, ExitUnknown}

// ExitKind says how a process has exited.
func (p *Process) ExitKind(code int) string {
	child := p.startedChild()
	used := wireUsage(child)
	switch {
	case code == 0:
		return ExitSuccess
	case p.Command.ReachedLimit() != "" || used != nil && used.MemoryKill != nil && used.MemoryKill.Limit != wire.LimitOuter:
		return ExitLimit
	case child != nil && child.Terminated():
		return ExitTerminated
	case code < 0:
		return ExitUnknown
	case code > 128:
		return ExitSignal
	}
	return ExitFailure
}
