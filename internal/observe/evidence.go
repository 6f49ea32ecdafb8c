package observe

import "time"

// Evidence is what was seen of a process and everything that it started.
type Evidence struct {
	At        time.Time
	Looked    bool      // the system was asked; otherwise only the caller's knowledge counts
	Root      int       // the process itself
	Exited    bool      // it has exited, and its output is still open
	Blocked   bool      // its output is blocked, because its client does not read
	Input     FileID    // its standard input, if the server holds the other end
	Outputs   []FileID  // its standard output and error, likewise
	Processes []Process // by number
	Holders   []Holder  // processes that can still write to the outputs; only searched once it has exited
	Partial   bool      // not everything could be inspected
}

// A Process is one process of a tree.
type Process struct {
	PID, Parent int
	Name        string // name of its program, as the system reports it
	State       State
	Threads     []Thread
}

// State is the letter of the system for the state of a process or thread.
type State byte

// The states that matter.
const (
	StateOnCPU   State = 'R' // running, or ready to run
	StateAsleep  State = 'S'
	StateDisk    State = 'D' // cannot be interrupted
	StateStopped State = 'T'
	StateTraced  State = 't'
	StateZombie  State = 'Z' // exited, and not reaped by its parent
	StateDead    State = 'X'
)

// A Thread is one thread of a process and what it waits for.
type Thread struct {
	State State
	Call  Call
	Name  string // name of the system call; empty: not known
	Place string // function in the kernel; only set if the call is not known
	Files []File // the files of the call
	Child int    // the child that it waits for; 0: any
}

// Call is a kind of system call.
type Call uint8

// The kinds of calls that a thread waits in.
const (
	CallUnknown Call = iota
	CallRead
	CallWrite
	CallPoll // waits for any of several files
	CallSleep
	CallChild
	CallNetwork
	CallLock
	CallSignal
)

// A FileID identifies a file: by device and inode, a terminal by its device number.
type FileID struct{ Dev, Ino, Rdev uint64 }

// FileKind is the kind of file behind a descriptor.
type FileKind uint8

// The kinds of files.
const (
	FileOther FileKind = iota
	FilePipe
	FileTerminal
	FileSocket
	FileInternal // only the process itself can cause events: timers, signals, its own pipes
)

// A File is a descriptor of a process.
type File struct {
	FD      int
	Kind    FileKind
	ID      FileID
	Holders []Holder // the processes at the other end of a pipe that is waited for
}

// A Holder is a process that has an end of a pipe.
type Holder struct {
	PID  int
	Name string
}
