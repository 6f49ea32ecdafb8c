package proc

import "fmt"

// A KillKind says how everything that a process started is found when it is killed.
type KillKind int

// The kinds, from the one that reaches most.
const (
	KillByKernel KillKind = iota // by the kernel, which knows all members of the cgroup (cgroup.kill)
	KillMembers                  // the members of the cgroup, one by one
	KillFound                    // what a search of the process table finds
	KillGroup                    // the process group
)

// KillKind returns how the process is killed.
func (p *Process) KillKind() KillKind { return p.child.killKind() }

// survivorsNamed is how many survivors of one process are named: a log line and a message have to stay short.
const survivorsNamed = 16

// A Survivor is a process of a tree that is still there although it was killed.
type Survivor struct {
	PID   int
	State byte   // the letter of the system: D for a process that waits in the kernel and cannot be interrupted
	Name  string // of its program

	refused bool   // this program may not signal it
	started string // tells it from other processes with the same number
}

// Reason says for people why the process is still there.
func (s *Survivor) Reason() string {
	switch {
	case s.refused:
		return "it runs as another user, and the server may not signal it"
	case s.State == 'D':
		return "it waits in the kernel and cannot be interrupted; it ends when that wait ends"
	}
	return "it was killed and has not ended yet"
}

// Survivors returns the processes that the last kill has left and that are still there.
func (p *Process) Survivors() (left []Survivor) {
	p.mu.Lock()
	noted := p.survivors
	p.mu.Unlock()
	for _, s := range noted {
		if s.refresh() {
			left = append(left, s)
		}
	}
	return left
}

// verifyKill looks for processes that a kill has left, and reports them.
func (p *Process) verifyKill() {
	left := p.child.tree.survivors()
	p.mu.Lock()
	p.survivors = left
	p.mu.Unlock()
	if len(left) == 0 {
		return
	}
	names := make([]string, len(left))
	for i := range left {
		names[i] = fmt.Sprintf("%d (%s, state %c)", left[i].PID, left[i].Name, left[i].State)
	}
	p.sup.log.Warn("killed processes are still there", "command", p.Pid(), "survivors", names, "reason", left[0].Reason())
}
