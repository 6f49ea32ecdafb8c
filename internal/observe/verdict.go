package observe

import (
	"cmp"
	"slices"
	"sort"
)

// Activity says what a process is doing, in one word.
type Activity string

// The activities, with their names on the wire.
const (
	Unknown          Activity = "unknown"          // nothing could be seen
	Running          Activity = "running"          // no reason to wait was found
	UsingCPU         Activity = "usingCpu"         // running, or ready to run
	WaitingForInput  Activity = "waitingForInput"  // on its standard input, from the client
	OutputNotRead    Activity = "outputNotRead"    // the client does not read its output
	BlockedOnPipe    Activity = "blockedOnPipe"    // a pipe of another process
	Stopped          Activity = "stopped"          // by a signal or a debugger
	Sleeping         Activity = "sleeping"         // for a time
	WaitingForDisk   Activity = "waitingForDisk"   // in a state that cannot be interrupted
	WaitingOnNetwork Activity = "waitingOnNetwork" // in a call about a socket
	WaitingForEvents Activity = "waitingForEvents" // for any of several files, or a timer
	WaitingForLock   Activity = "waitingForLock"   // or for another thread of the process
	WaitingForSignal Activity = "waitingForSignal" // and for nothing else
	WaitingForChild  Activity = "waitingForChild"  // and nothing was seen of the child
	Waiting          Activity = "waiting"          // in the kernel, for another reason
	Zombie           Activity = "zombie"           // exited, and not reaped by its parent
	OutputHeld       Activity = "outputHeld"       // exited, but another process has its output open
)

// weight orders activities by how well they explain a silence. One process that
// waits for the user explains it, whatever the others do. A shell that waits for
// its children explains nothing if a child does.
var weight = map[Activity]int{
	OutputHeld: 17, OutputNotRead: 16, WaitingForInput: 15,
	UsingCPU: 13, Stopped: 12, BlockedOnPipe: 11, WaitingForDisk: 10, WaitingOnNetwork: 9, Sleeping: 8,
	WaitingForEvents: 7, WaitingForLock: 6, Waiting: 5, WaitingForSignal: 4, WaitingForChild: 3, Zombie: 2, Running: 1,
}

// weightStoppedRoot is the weight of a stopped root process whose children may run.
const weightStoppedRoot = 14

// A Verdict is the conclusion of Decide from the evidence.
type Verdict struct {
	Activity Activity
	PID      int    // the decisive process; 0: none
	Name     string // name of its program
	Holder   Holder // the process that holds the pipe or the output, or the child; PID 0: not known
	Text     string // one line for people
	Seen     []Sight
	Partial  bool
}

// A Sight is what was seen of one process.
type Sight struct {
	PID  int
	Name string
	Saw  string
}

// maxSeen limits the sights of a verdict. The decisive one is always the first.
const maxSeen = 16

// finding says what one process is doing.
type finding struct {
	process  *Process
	thread   *Thread
	file     *File
	activity Activity
	weight   int
	stdin    bool // one of the events that it waits for is input
	child    int
}

// Decide says what a process and everything that it has started are doing.
func Decide(e Evidence) Verdict {
	findings := make([]finding, 0, len(e.Processes))
	for i := range e.Processes {
		findings = append(findings, e.judge(&e.Processes[i]))
	}
	sort.SliceStable(findings, func(i, j int) bool { return findings[i].weight > findings[j].weight })
	v := Verdict{Activity: Unknown, Partial: e.Partial}
	switch {
	case e.Blocked:
		v.Activity = OutputNotRead
		if len(findings) > 0 && findings[0].activity == OutputNotRead {
			v.PID, v.Name = findings[0].process.PID, findings[0].process.Name
		}
	case e.Exited:
		v.Activity = OutputHeld
		if len(e.Holders) > 0 {
			v.Holder = e.Holders[0]
		}
	case len(findings) > 0:
		v.decide(findings)
	case !e.Looked:
		v.Activity = Running // all that is known is that it has not exited
	}
	v.Text = v.text(e, findings)
	for _, f := range findings[:min(len(findings), maxSeen)] {
		v.Seen = append(v.Seen, Sight{f.process.PID, f.process.Name, f.sight(e)})
	}
	return v
}

// decide takes the finding with the highest weight.
func (v *Verdict) decide(findings []finding) {
	f := findings[0]
	v.Activity, v.PID, v.Name = f.activity, f.process.PID, f.process.Name
	switch {
	case f.activity == BlockedOnPipe && len(f.file.Holders) > 0:
		f.file.Holders = busiestFirst(f.file.Holders, findings)
		v.Holder = f.file.Holders[0]
	case f.activity == WaitingForChild && f.child > 0:
		v.Holder.PID = f.child
		for _, other := range findings {
			if other.process.PID == f.child {
				v.Holder.Name = other.process.Name
			}
		}
	}
}

// busiestFirst puts the holder first whose own activity explains most: a shell has its
// ends of a pipe only because its children have.
func busiestFirst(holders []Holder, findings []finding) []Holder {
	for _, f := range findings { // the highest weight first
		for i, h := range holders {
			if h.PID == f.process.PID {
				return append(append([]Holder{h}, holders[:i]...), holders[i+1:]...)
			}
		}
	}
	return holders
}

// judge says what one process is doing: the activity of its thread with the highest
// weight.
func (e Evidence) judge(p *Process) finding {
	best := finding{process: p, activity: Running, weight: weight[Running]}
	take := func(f finding) {
		if f.weight == 0 {
			f.weight = weight[f.activity]
		}
		if f.weight > best.weight {
			f.process = p
			best = f
		}
	}
	switch p.State {
	case StateZombie, StateDead:
		best.activity, best.weight = Zombie, weight[Zombie]
		return best
	case StateStopped, StateTraced:
		f := finding{activity: Stopped}
		if p.PID == e.Root {
			f.weight = weightStoppedRoot
		}
		take(f)
		return best
	}
	for i := range p.Threads {
		t := &p.Threads[i]
		f := e.judgeThread(t)
		f.thread = t
		take(f)
	}
	if best.activity == WaitingForChild {
		best.child = cmp.Or(best.thread.Child, e.onlyChild(p.PID))
	}
	return best
}

func (e Evidence) judgeThread(t *Thread) finding {
	switch t.State {
	case StateOnCPU:
		return finding{activity: UsingCPU}
	case StateDisk:
		return finding{activity: WaitingForDisk}
	}
	switch t.Call {
	case CallRead, CallWrite:
		return e.judgeTransfer(t)
	case CallPoll:
		return e.judgePoll(t)
	case CallSleep:
		return finding{activity: Sleeping}
	case CallChild:
		return finding{activity: WaitingForChild}
	case CallNetwork:
		return finding{activity: WaitingOnNetwork}
	case CallLock:
		return finding{activity: WaitingForLock}
	case CallSignal:
		return finding{activity: WaitingForSignal}
	}
	return finding{activity: Waiting}
}

// judgeTransfer is for a thread that reads or writes one file.
func (e Evidence) judgeTransfer(t *Thread) finding {
	if len(t.Files) == 0 {
		return finding{activity: Waiting}
	}
	file := &t.Files[0]
	switch {
	case t.Call == CallRead && e.isInput(file):
		return finding{activity: WaitingForInput, file: file}
	case t.Call == CallWrite && e.isOutput(file):
		if e.Blocked {
			return finding{activity: OutputNotRead, file: file}
		}
		return finding{activity: Running, file: file} // its output is being read at this moment
	case file.Kind == FilePipe:
		return finding{activity: BlockedOnPipe, file: file}
	case file.Kind == FileSocket:
		return finding{activity: WaitingOnNetwork, file: file}
	}
	return finding{activity: Waiting, file: file}
}

// judgePoll is for a thread that waits for any of several files. If input is the
// only event that can come from outside, the thread waits for input.
func (e Evidence) judgePoll(t *Thread) finding {
	var input *File
	others := false
	for i := range t.Files {
		switch {
		case e.isInput(&t.Files[i]):
			input = &t.Files[i]
		case t.Files[i].Kind != FileInternal:
			others = true
		}
	}
	if input != nil && !others {
		return finding{activity: WaitingForInput, file: input}
	}
	return finding{activity: WaitingForEvents, stdin: input != nil}
}

func (e Evidence) isInput(f *File) bool { return e.Input != (FileID{}) && f.ID == e.Input }

func (e Evidence) isOutput(f *File) bool { return slices.Contains(e.Outputs, f.ID) }

// onlyChild is the living child of a process, if it has exactly one.
func (e Evidence) onlyChild(pid int) (child int) {
	for _, p := range e.Processes {
		if p.Parent == pid && p.State != StateZombie && p.State != StateDead {
			if child != 0 {
				return 0
			}
			child = p.PID
		}
	}
	return child
}
