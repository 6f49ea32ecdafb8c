package fork

import (
	"errors"
	"fmt"
	"syscall"
)

// A Command is a program to start. The program leads a session of its own.
type Command struct {
	Path string // absolute, or relative to Dir
	Argv []string
	Env  []string

	Dir   int   // an open directory; -1: the root directory
	Files []int // the program's descriptors 0, 1, 2, …; at least these three

	Terminal bool // Files[0] becomes the controlling terminal

	// DeathSignal is what the kernel sends to the child when the thread that called Start ends.
	// 0: nothing.
	DeathSignal syscall.Signal

	Cgroup int // a descriptor of the cgroup to start in; -1: that of this program

	// Namespaces has flags of clone. CLONE_NEWNS gives the child a copy of the mounts in which
	// later mounts of other processes do not appear. CLONE_NEWUSER gives it a user namespace with
	// this user and this group only, in which no process can make a cgroup namespace if the machine lets the child
	// say so. CLONE_NEWPID makes the child the first process of a pid namespace; then no
	// death signal comes if the parent dies before the child has asked for it.
	Namespaces uintptr

	// Capabilities are capabilities that the program of a user other than root keeps in a user namespace of its own, a
	// bit for each. The program of root has all.
	Capabilities uint64

	// Writes are written to their files in this order, before the child leaves this program's
	// directory and mounts.
	Writes []Write

	// Limits are set right before the program is executed.
	Limits []Rlimit

	// Sibling makes the child a child of this program's parent, which then has to reap it, also
	// if the start fails. The death signal comes when that parent's thread ends.
	Sibling bool

	// Note, if any, is where the start is noted. It may be in memory that outlives this program.
	Note *Note
}

// A Write is a text that the child writes to a file in one system call.
type Write struct {
	Path     string // absolute
	Text     string
	Step     Step // for errors
	Optional bool // if the file cannot be written, the start goes on
}

// An Rlimit is a limit of the kernel for the program and, each on its own, the processes that it starts. It
// is the soft and the hard limit.
type Rlimit struct {
	Resource int // RLIMIT_…
	Limit    uint64
}

// A Note tells about a start, also to a program that survives the one that called [Starter.Start].
type Note struct {
	Pid     int32 // stored by the kernel before the child runs; 0: no child has been made
	_       int32
	Failure Failure // stored by a child that gives up
}

// A Failure is the step and the errno of a failed start in one word. 0: no failure.
type Failure uint64

// Err is the failure as an error; nil: none.
func (f Failure) Err() *Error {
	if f == 0 {
		return nil
	}
	return &Error{Step(f >> 32), syscall.Errno(f & 0xffffffff)}
}

// exitCode is the exit code of a child that gives up.
const exitCode = 253

// A Child is a started process, which has to be reaped.
type Child struct {
	Pid   int
	Pidfd int // -1: the kernel has no pidfds
}

// A Step is a part of a start.
type Step uint32

// The steps in the order in which they are taken.
const (
	StepClone Step = iota + 1
	StepUnshare
	StepGroup
	StepScore
	StepSession
	StepSignals
	StepFiles
	StepClose
	StepUser
	StepMounts
	StepCapabilities
	StepDirectory
	StepDeathSignal
	StepTerminal
	StepLimit
	StepExec
)

var stepNames = [...]string{
	StepClone:        "make a process",
	StepUnshare:      "leave the descriptors of the parent",
	StepGroup:        "join the control groups of its limits",
	StepScore:        "offer itself when memory is short",
	StepSession:      "make a session",
	StepSignals:      "reset signals",
	StepFiles:        "pass on descriptors",
	StepClose:        "close descriptors",
	StepUser:         "map the user",
	StepMounts:       "make mounts private",
	StepCapabilities: "keep capabilities",
	StepDirectory:    "enter the working directory",
	StepDeathSignal:  "ask for the death signal",
	StepTerminal:     "take the terminal",
	StepLimit:        "set its limits",
	StepExec:         "execute the program",
}

func (s Step) String() string {
	if s < StepClone || s > StepExec {
		return fmt.Sprintf("step %d", uint32(s))
	}
	return stepNames[s]
}

// An Error is a system call of a start that has failed.
type Error struct {
	Step  Step
	Errno syscall.Errno
}

func (e *Error) Error() string { return e.Step.String() + ": " + e.Errno.Error() }
func (e *Error) Unwrap() error { return e.Errno }

// failed adds the step to an error of a system call.
func failed(step Step, err error) *Error {
	errno, _ := err.(syscall.Errno)
	return &Error{step, errno}
}

// leastFiles is how many descriptors a program must be given: programs rely on 0, 1 and 2.
const leastFiles = 3

var errFewFiles = errors.New("a program needs the descriptors 0, 1 and 2")
