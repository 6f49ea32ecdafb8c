package client

import "sort"

// Limits of the events that a process keeps for who comes late.
const (
	logEvents = 256
	logBytes  = 1 << 20

	// While a subscription is behind, more is kept: what falls out has to be fetched
	// again, and a server without acknowledgements may not have it any more.
	lateEvents          = 8192
	lateBytes           = 4 << 20
	lateBytesReference  = 16 << 20
	lateEventsReference = 32768
)

// room is how much a log may keep for subscriptions that are behind.
type room struct{ events, bytes int }

func (c *Client) logRoom() room {
	if c.acknowledges.Load() {
		return room{lateEvents, lateBytes}
	}
	return room{lateEventsReference, lateBytesReference}
}

// An eventLog keeps the newest events of a process, without a hole.
type eventLog struct {
	start  uint64 // the first number that is in it, or will be
	events []Event
	bytes  int
}

// add appends an event.
func (l *eventLog) add(e Event, needed uint64, late room) {
	if l.start == 0 {
		l.start = 1
	}
	l.events = append(l.events, e)
	l.bytes += len(e.Data)
	l.trim(needed, late)
}

// trim drops old events: those before needed as soon as there are too many, the others
// when there is no room at all.
func (l *eventLog) trim(needed uint64, late room) {
	drop := 0
	for drop < len(l.events)-1 {
		old := l.events[drop]
		left, bytes := len(l.events)-drop, l.bytes
		if left <= logEvents && bytes <= logBytes {
			break
		}
		if old.Seq >= needed && left <= late.events && bytes <= late.bytes {
			break
		}
		l.bytes -= len(old.Data)
		l.start = old.Seq + 1
		l.events[drop] = Event{}
		drop++
	}
	l.events = l.events[drop:]
}

// full reports whether so much more would make it drop what is needed.
func (l *eventLog) full(more int, late room) bool {
	return l.bytes+more > late.bytes || len(l.events) >= late.events
}

// from returns the event with this number, or the gap that it is in. False: it is
// not there yet.
func (l *eventLog) from(seq uint64) (Event, bool) {
	i := sort.Search(len(l.events), func(i int) bool { return l.events[i].Seq >= seq })
	if i == len(l.events) {
		return Event{}, false
	}
	return l.events[i], true
}
