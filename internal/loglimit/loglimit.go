// Package loglimit limits how many lines a log gets about events that a stranger can cause as often as they like.
//
// It promises that a flood of events costs a bounded number of lines, and that the number of the lines left out is in the log.
package loglimit

import (
	"sync"
	"time"
)

const (
	burst = 20              // lines at once
	every = 3 * time.Second // one more line, up to burst
)

// A Limit decides which events of one kind are logged. Its zero value is ready for use.
type Limit struct {
	mu      sync.Mutex
	used    float64   // lines of the burst, as of when
	when    time.Time // of the last event
	dropped int       // events since the last line
}

// Next reports whether an event is logged. If so, dropped is the number of events since the last line, which were not.
func (l *Limit) Next() (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.used = max(0, l.used-float64(now.Sub(l.when))/float64(every))
	l.when = now
	if l.used+1 > burst {
		l.dropped++
		return 0, false
	}
	l.used++
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}
