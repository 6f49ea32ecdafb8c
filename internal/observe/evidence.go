package observe

import "time"

// Evidence is what was seen of a process and all that it started.
type Evidence struct {
	At        time.Time
	Looked    bool      // the system was asked; else only what the caller knows counts
	Root      int       // the process itself
	Exited    bool      // it has exited, and its output is still open
	Blocked   bool      // its output is held back by us
	Input     FileID    // its standard input, if we hold the other end
	Outputs   []FileID  // its standard output and error, likewise
	Processes []Process // by number
	Holders   []Holder  // who can still write to the outputs; looked for once it has exited
	Partial   bool      // not everything could be looked at
}

// A Process is one process of a tree.
type Process struct {
	PID, Parent int
	Name        string // of its program, as the system has it
	State       State
	Threads     []Thread
}

// State is the letter that the system gives to what a process or thread does.
type State byte

// The states that matter.
const (
	StateOnCPU   State = 'R' // or ready for it
	StateAsleep  State = 'S'
	StateDisk    State = 'D' // cannot be interrupted
	StateStopped State = 'T'
	StateTraced  State = 't'
	StateZombie  State = 'Z' // exited, and its parent has not asked how
	StateDead    State = 'X'
)

// A Thread is one thread of a process and what it waits for.
type Thread struct {
	State State
	Call  Call
	Name  string // of the system call; empty: not known
	Place string // where in the kernel it is; only set if that is all that is known
	Files []File // what the call is about
	Child int    // the one it waits for; 0: any
}

// Call is a kind of system call.
type Call uint8

// The kinds of calls that a thread waits in.
const (
	CallUnknown Call = iota
	CallRead
	CallWrite
	CallPoll // for any of several files
	CallSleep
	CallChild
	CallNetwork
	CallLock
	CallSignal
)

// A FileID tells files apart: by device and number, terminals by what they are.
type FileID struct{ Dev, Ino, Rdev uint64 }

// FileKind says what a descriptor leads to.
type FileKind uint8

// The kinds of files.
const (
	FileOther FileKind = iota
	FilePipe
	FileTerminal
	FileSocket
	FileInternal // something that only the process itself can cause: timers, signals, its own pipes
)

// A File is a descriptor of a process.
type File struct {
	FD      int
	Kind    FileKind
	ID      FileID
	Holders []Holder // who has the other end of a pipe that is waited for
}

// A Holder is somebody who has an end of a pipe.
type Holder struct {
	PID  int
	Name string
}
