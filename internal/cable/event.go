package cable

import (
	"fmt"
	"time"
)

// An EventKind says what happened to the cable or to a connection.
type EventKind string

// The kinds of an Event.
const (
	Opened      EventKind = "opened"  // a connection that has reached the target
	Ended       EventKind = "ended"   // a connection; Detail says why
	Refused     EventKind = "refused" // a connection; Detail says why
	WasCut      EventKind = "cut"
	WasMended   EventKind = "mended"
	WasFrozen   EventKind = "frozen"
	WasThawed   EventKind = "thawed"
	WasStranded EventKind = "stranded"
)

// An Event describes something that happened, for people.
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

// Stats are the counters of a cable. Arrays are indexed by Direction.
type Stats struct {
	Links    int // connections that reached the target
	Refused  int // connections that did not reach it
	Cuts     int // of the cable, including those by rules
	Freezes  int
	Messages [2]int   // received by the cable, without control frames
	Bytes    [2]int64 // forwarded by the cable, with framing
	Touched  int      // messages on which a rule acted
}
