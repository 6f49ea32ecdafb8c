package client

import (
	"sort"
	"sync/atomic"
)

// Limits of the events that a process keeps for subscriptions.
const (
	// Always kept, for subscriptions that begin late.
	logEvents = 256
	logBytes  = 1 << 20

	// Kept while a subscription reads and is behind: events that fall out of the log
	// have to be fetched from the server again.
	lateEvents = 8192
	lateBytes  = 4 << 20

	// A server without acknowledgements has only the newest 1 MiB of output: events that
	// fall out of the log are lost. So more are kept, also for a subscription that does
	// not read at the moment. The last limit is for all processes together.
	lateBytesReference  = 64 << 20
	lateEventsReference = lateBytesReference / 256
	lateTotalReference  = 256 << 20
)

// room is the limit of what a log keeps for subscriptions that are behind.
type room struct{ events, bytes int }

// logRoom is the room of a process's log. The caller has p.mu.
func (p *Process) logRoom() room {
	if p.client.session.acknowledges {
		return room{lateEvents, lateBytes}
	}
	left := lateTotalReference - p.client.processes.kept.Load() + p.log.kept.Load()
	return room{lateEventsReference, int(min(max(left, logBytes), lateBytesReference))}
}

// trimLog drops events that are not needed any more, or that there is no room for. The
// caller has p.mu.
func (p *Process) trimLog() {
	needed := p.needed()
	if p.client.session.acknowledges {
		needed = p.awaited() // earlier events can be fetched from the server again
	}
	p.log.trim(needed, p.logRoom())
	grown := int64(p.log.bytes) - p.log.kept.Load()
	p.log.kept.Add(grown)
	p.client.processes.kept.Add(grown)
}

// An eventLog keeps the newest events of a process. Their numbers have no gaps, except where
// a Gap event stands.
type eventLog struct {
	start  uint64 // the first number that is in it, or will be
	events []Event
	bytes  int           // in the events
	total  uint64        // bytes of all events so far
	kept   *atomic.Int64 // bytes, as counted in processTable.kept
}

// add appends an event.
func (l *eventLog) add(e Event) {
	if l.start == 0 {
		l.start = 1
	}
	l.bytes += len(e.Data)
	l.total += uint64(len(e.Data))
	e.end = l.total
	l.events = append(l.events, e)
}

// trim drops old events: events before needed above the first limits, other events above
// the limits for late subscriptions.
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

// full reports whether so many more bytes would make the log drop the event seq or later
// ones.
func (l *eventLog) full(seq uint64, more int, late room) bool {
	if l.bytes+more <= late.bytes && len(l.events) < late.events {
		return false
	}
	i := l.search(seq)
	if i == len(l.events) {
		return false
	}
	bytes := int(l.total-l.events[i].end) + len(l.events[i].Data)
	return bytes+more > late.bytes || len(l.events)-i >= late.events
}

// search returns the index of the event with this number, or of the Gap that covers it.
func (l *eventLog) search(seq uint64) int {
	return sort.Search(len(l.events), func(i int) bool { return l.events[i].Seq >= seq })
}

// from returns the event with this number, or the Gap that covers it. It returns false if
// the event has not arrived yet.
func (l *eventLog) from(seq uint64) (Event, bool) {
	i := l.search(seq)
	if i == len(l.events) {
		return Event{}, false
	}
	return l.events[i], true
}
