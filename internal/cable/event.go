package cable

import (
	"fmt"
	"time"
)

// An EventKind is what happened to the cable or to a connection.
type EventKind string

// The kinds of an Event.
const (
	Opened      EventKind = "opened"  // a connection, through to the target
	Ended       EventKind = "ended"   // a connection; Detail says why
	Refused     EventKind = "refused" // a connection; Detail says why
	WasCut      EventKind = "cut"
	WasMended   EventKind = "mended"
	WasFrozen   EventKind = "frozen"
	WasThawed   EventKind = "thawed"
	WasStranded EventKind = "stranded"
)

// An Event is something that happened, for people.
type Event struct {
	Time   time.Time
	Kind   EventKind
	Link   int // 0: the cable
	Detail string
}

func (e Event) String() string {
	s := string(e.Kind)
	if e.Link > 0 {
		s = fmt.Sprintf("link %d %s", e.Link, s)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Stats is what a cable has done so far. Arrays are indexed by Direction.
type Stats struct {
	Links    int // connections that reached the target
	Refused  int // connections that did not
	Cuts     int // of the cable, with those that rules made
	Freezes  int
	Messages [2]int   // that the cable received, without control frames
	Bytes    [2]int64 // that the cable sent on, with framing
	Touched  int      // messages that a rule changed the fate of
}
