package observe

import (
	"fmt"
	"strings"
)

// text is the verdict in one line.
func (v Verdict) text(e Evidence, findings []finding) string {
	name := fmt.Sprintf("%s (pid %d)", v.Name, v.PID)
	switch v.Activity {
	case Unknown:
		return "it could not be inspected"
	case OutputNotRead:
		if v.PID == 0 {
			name = "it"
		}
		return name + " is blocked: its client does not read its output"
	case OutputHeld:
		if v.Holder.PID == 0 {
			return "it has exited, but its output is still open; the process that holds it was not found"
		}
		return fmt.Sprintf("it has exited, but %s holds its output open", v.Holder)
	case Running:
		if v.PID == 0 {
			return "it runs; this system does not show what it is doing"
		}
		return name + " runs; no reason to wait was found"
	}
	return name + " " + findings[0].does(e) + v.follow(e, findings)
}

// follow says what the holder of a pipe is doing, which is the cause behind the cause.
func (v Verdict) follow(e Evidence, findings []finding) string {
	if v.Activity != BlockedOnPipe {
		return ""
	}
	for _, f := range findings {
		if f.process.PID == v.Holder.PID {
			return fmt.Sprintf("; %s %s", v.Holder.Name, f.does(e))
		}
	}
	return ""
}

func (h Holder) String() string { return fmt.Sprintf("%s (pid %d)", h.Name, h.PID) }

// does says what a process is doing, as the rest of a sentence.
func (f finding) does(e Evidence) string {
	switch f.activity {
	case UsingCPU:
		return "uses the CPU"
	case WaitingForInput:
		if f.file.Kind == FileTerminal {
			return "waits for input on its terminal"
		}
		return "waits for input on stdin"
	case OutputNotRead:
		return "writes output that is not read"
	case BlockedOnPipe:
		return f.blocked()
	case Stopped:
		if f.process.State == StateTraced {
			return "is stopped by a debugger"
		}
		return "is stopped by a signal"
	case Sleeping:
		return "sleeps for a time"
	case WaitingForDisk:
		return "waits in the kernel, usually for a disk"
	case WaitingOnNetwork:
		return "waits on a socket"
	case WaitingForEvents:
		return "waits for events" + f.events(e)
	case WaitingForLock:
		return "waits for a lock or another thread"
	case WaitingForSignal:
		return "waits for a signal"
	case WaitingForChild:
		if f.child != 0 {
			return fmt.Sprintf("waits for its child (pid %d)", f.child)
		}
		return "waits for its children"
	case Zombie:
		return "has exited and was not reaped by its parent"
	case Running:
		return "runs"
	}
	return "waits in the kernel"
}

func (f finding) blocked() string {
	holder := "; the process at the other end was not found"
	if f.file.ID == (FileID{}) {
		holder = ""
	} else if len(f.file.Holders) > 0 {
		holder = " held by " + f.file.Holders[0].String()
		if more := len(f.file.Holders) - 1; more > 0 {
			holder += fmt.Sprintf(" and %d more", more)
		}
	}
	if f.thread.Call == CallWrite {
		return "is blocked writing to a full pipe" + holder
	}
	return "waits for data from a pipe" + holder
}

func (f finding) events(e Evidence) string {
	var kinds []string
	add := func(kind string) {
		for _, k := range kinds {
			if k == kind {
				return
			}
		}
		kinds = append(kinds, kind)
	}
	if f.stdin {
		add("stdin")
	}
	for i := range f.thread.Files {
		file := &f.thread.Files[i]
		if !e.isInput(file) && file.Kind != FileInternal {
			add(file.Kind.String())
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return " of: " + strings.Join(kinds, ", ")
}

func (k FileKind) String() string {
	switch k {
	case FilePipe:
		return "a pipe"
	case FileTerminal:
		return "a terminal"
	case FileSocket:
		return "a socket"
	case FileInternal:
		return "its own events"
	}
	return "a file"
}

// sight describes the evidence of a finding.
func (f finding) sight(e Evidence) string {
	saw := fmt.Sprintf("state %c", f.process.State)
	t := f.thread
	if t == nil && len(f.process.Threads) > 0 {
		t = &f.process.Threads[0]
	}
	if t != nil && f.process.State != StateStopped && f.process.State != StateTraced {
		saw = fmt.Sprintf("state %c%s", t.State, t.saw(e))
	}
	if f.child != 0 {
		saw += fmt.Sprintf(", child %d", f.child)
	}
	return saw
}

func (t *Thread) saw(e Evidence) string {
	if t.State == StateOnCPU {
		return ""
	}
	if t.Name == "" {
		if t.Place == "" {
			return ", system call not visible"
		}
		return ", in " + t.Place
	}
	s := ", in " + t.Name
	for i := range t.Files {
		if i == maxShownFiles {
			return s + fmt.Sprintf(" and %d more", len(t.Files)-i)
		}
		file := &t.Files[i]
		s += fmt.Sprintf(" fd %d (%s)", file.FD, e.called(file))
	}
	if t.Place != "" {
		s += ", in " + t.Place
	}
	return s
}

// maxShownFiles is how many descriptors of one call are named.
const maxShownFiles = 4

func (e Evidence) called(f *File) string {
	switch {
	case f.Kind == FileTerminal && e.isInput(f):
		return "its terminal"
	case e.isInput(f):
		return "its input"
	case e.isOutput(f):
		return "its output"
	case len(f.Holders) > 0:
		return fmt.Sprintf("a pipe of pid %d", f.Holders[0].PID)
	}
	return f.Kind.String()
}
