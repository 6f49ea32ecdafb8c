package proc

import (
	"sync"
	"time"
)

// Usage is what a process and all that it started use.
type Usage struct {
	CPU    time.Duration // since the start, also of those that have ended
	Memory uint64        // resident bytes; pages that several share count for each
}

// usageLooks keeps looks at the use of processes from piling up: they go one after
// the other, and whoever waited for one that began after he had asked takes that.
type usageLooks struct {
	mu    sync.Mutex
	began time.Time // the last one
	found map[*Process]Usage
}

// Usage looks what the processes use, all that are not forgotten: those of which it
// is not known are not in the answer, which must not be changed.
func (s *Supervisor) Usage() map[*Process]Usage {
	asked := time.Now()
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	if !s.usage.began.After(asked) {
		s.usage.began = time.Now()
		s.usage.found = lookAtUsage(s.unsettled())
	}
	return s.usage.found
}
