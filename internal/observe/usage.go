package observe

import (
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/proc"
)

// Usage is what a process and all that it started use.
type Usage struct {
	CPU    time.Duration // since the start, also of those that have ended
	Memory uint64        // resident bytes; pages that several share count for each
}

// A Meter measures what the processes of a supervisor use. Measurements do not pile
// up: they run one after the other, and a caller that waited for one which began after
// its call takes the result of that.
type Meter struct {
	procs *proc.Supervisor

	mu    sync.Mutex
	began time.Time // the last measurement
	found map[*proc.Process]Usage
}

// NewMeter returns a meter for the processes of a supervisor.
func NewMeter(procs *proc.Supervisor) *Meter { return &Meter{procs: procs} }

// Usage returns what the processes use of which something is left. A process is
// missing if that is not known. The result must not be changed.
func (m *Meter) Usage() map[*proc.Process]Usage {
	asked := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.began.After(asked) {
		m.began = time.Now()
		m.found = measure(m.procs.Processes())
	}
	return m.found
}
