package observe

import (
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/proc"
)

// Usage is the CPU time and memory of a process and everything that it started.
type Usage struct {
	CPU    time.Duration // since the start, including processes that have ended
	Memory uint64        // resident bytes; shared pages count for each process
}

// A Meter measures the usage of a supervisor's processes. Measurements run one after
// the other. If a caller has waited for a measurement that began after its call, it
// takes that result instead of measuring again.
type Meter struct {
	procs *proc.Supervisor

	mu    sync.Mutex
	began time.Time // start of the last measurement
	found map[*proc.Process]Usage
}

// NewMeter returns a meter for the processes of a supervisor.
func NewMeter(procs *proc.Supervisor) *Meter { return &Meter{procs: procs} }

// Usage returns the usage of all processes that have not settled. A process is
// missing if its usage is not known. The result must not be changed.
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
