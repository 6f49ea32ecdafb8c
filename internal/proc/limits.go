package proc

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/arena"
)

// A Limit names something of which a process, with everything that it starts, gets only so much. The numbers are
// the same in all versions: slots have them.
type Limit int

// The limits.
const (
	LimitMemory    Limit = iota // bytes
	LimitCPUs                   // thousandths of a processor
	LimitProcesses              // threads count
	LimitFiles                  // open files of each process
	LimitDisk                   // bytes written to disk
	LimitTime                   // nanoseconds from the start to the end

	LimitCount int = iota
)

var _ [arena.SlotLimits - LimitCount]struct{} // a slot has room for all

var limitNames = [LimitCount]string{"memory", "processors", "processes", "open files", "disk space written", "time"}

func (l Limit) String() string { return limitNames[l] }

// Limits are the values that are asked for; 0: no limit.
type Limits [LimitCount]uint64

// Any reports whether there is a limit.
func (l Limits) Any() bool { return l != Limits{} }

// By says how a limit is enforced. The numbers are the same in all versions: slots have them.
type By uint8

// The ways to enforce a limit.
const (
	ByNothing By = iota // it is not
	ByCgroup2           // by the kernel, for all processes together (control groups, version 2)
	ByCgroup1           // likewise (version 1)
	ByRlimit            // by the kernel, for each process
	ByTimer             // by this program
)

var byNames = [...]string{ByNothing: "none", ByCgroup2: "cgroup2", ByCgroup1: "cgroup1", ByRlimit: "rlimit", ByTimer: "timer"}

func (b By) String() string {
	if int(b) >= len(byNames) {
		return byNames[ByNothing]
	}
	return byNames[b]
}

// Enforced are the limits of a process that were asked for, and how each is enforced.
type Enforced struct {
	Limits Limits
	By     [LimitCount]By
}

// A LimitError says that a limit cannot be enforced here.
type LimitError struct {
	Limit   Limit
	Missing string // what is missing
	Fix     string // what to do about it
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("a limit of %s cannot be enforced here: %s. %s", e.Limit, e.Missing, e.Fix)
}

// store records the limits in a slot.
func (e *Enforced) store(slot *arena.Slot) {
	by := slot.Serial.Load() << serialBits
	for i, value := range e.Limits {
		if value != 0 {
			slot.Limits[i].Store(value, pointDetail)
		}
		by |= uint64(e.By[i]) << (bitsPerBy * i)
	}
	slot.LimitsBy.Store(by, pointDetail) // last: now they count
}

const (
	bitsPerBy  = 4  // the room of a By in a slot
	serialBits = 32 // the bits before the serial number, whose lower part is enough
)

// hasLimits reports whether the words about limits belong to the process of the slot. A program that does not know
// them leaves those of an earlier process.
func hasLimits(slot *arena.Slot) bool {
	return slot.LimitsBy.Load() != 0 && slot.LimitsBy.Load()>>serialBits == slot.Serial.Load()&(1<<serialBits-1)
}

// storedLimits returns what store has recorded.
func storedLimits(slot *arena.Slot) (e Enforced) {
	if !hasLimits(slot) {
		return e
	}
	by := slot.LimitsBy.Load()
	for i := range e.Limits {
		e.Limits[i] = slot.Limits[i].Load()
		e.By[i] = By(by >> (bitsPerBy * i) & (1<<bitsPerBy - 1))
	}
	return e
}

// A LimitSupport says which limits this machine can enforce.
type LimitSupport struct {
	By      [LimitCount]By
	Missing [LimitCount]error // why one is not, or only partly; nil: it is
}

// Text describes the support in one line.
func (s LimitSupport) Text() string {
	var can, cannot []string
	for i := range LimitCount {
		switch {
		case s.Missing[i] == nil:
			can = append(can, fmt.Sprintf("%s (%s)", Limit(i), s.By[i]))
		default:
			cannot = append(cannot, Limit(i).String())
		}
	}
	text := strings.Join(can, ", ")
	if len(cannot) > 0 {
		text += "; not " + strings.Join(cannot, ", ")
	}
	return text
}

// Limits are the limits of the process, and how they are enforced.
func (p *Process) Limits() Enforced { return p.child.limited }

// TimedOut reports whether the command is being terminated, or was, because its time was up.
func (p *Process) TimedOut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.timedOut
}

// limitTime ends the process when its time is up, also what it leaves in the background.
func (p *Process) limitTime() {
	limit := time.Duration(p.child.limited.Limits[LimitTime])
	if limit == 0 || p.child.limited.By[LimitTime] != ByTimer {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled {
		return
	}
	p.sup.tasks.Add(1) // until the timer has fired or was stopped
	p.timer = time.AfterFunc(time.Until(p.startedAt.Add(limit)), func() {
		defer p.sup.tasks.Done()
		p.timeUp()
	})
}

// stopTime ends limitTime.
func (p *Process) stopTime() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopTimeLocked()
}

func (p *Process) stopTimeLocked() {
	if p.timer != nil && p.timer.Stop() {
		p.sup.tasks.Done()
	}
	p.timer = nil
}

// timeUp ends the process as Terminate does. What it has left in the background is killed.
func (p *Process) timeUp() {
	p.mu.Lock()
	state, settled := p.state, p.settled
	if state == running && p.ending == nil {
		p.timedOut = true
	}
	p.mu.Unlock()
	switch {
	case settled:
	case state == closed:
		p.sup.log.Info("the time of a command is up: ending what it has left in the background", "pid", p.Pid())
		p.Kill()
	default:
		p.sup.log.Info("the time of a command is up", "pid", p.Pid())
		p.terminate(false)
	}
}

// LimitSupport finds out which limits this machine can enforce.
func (s *Supervisor) LimitSupport() (support LimitSupport, err error) {
	if !s.beginStart() {
		return support, ErrClosed
	}
	defer s.starts.Done()
	return s.needHost().limitSupport(), nil
}

// CheckLimits returns an error if limits of each command, or Config.Total, cannot be enforced on this machine.
func (s *Supervisor) CheckLimits(each Limits) error {
	if !each.Any() && !s.config.Total.Any() {
		return nil
	}
	if !s.beginStart() {
		return ErrClosed
	}
	defer s.starts.Done()
	return errors.Join(s.needHost().checkLimits(each), s.needHost().totalErr())
}
