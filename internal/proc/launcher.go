package proc

import (
	"context"
	"os"
	"time"
)

// A Launcher is a program that runs the command of a [Spec] for us, somewhere
// that it prepares first, such as a sandbox. It is started in /, and its
// descriptors are:
//
//	0, 1  the terminal, or nothing
//	2     Stderr
//	3–5   the command's 0–2
//	6, …  the Spec's Files
//
// Everything about the command but its descriptors is between the launcher and
// whoever made it: Argv, Env and Dir of the Spec are only checked.
type Launcher struct {
	Argv   []string // Argv[0] is an absolute path
	Env    []string
	Stderr *os.File // for what the launcher itself has to say
	Mounts Mounts

	// Stays: the launcher remains as the parent of the command, which gets a
	// session of its own, with the terminal. Requests to end and other signals
	// are for the command then; when the launcher ends, all must end with it.
	Stays bool

	// Confirm waits until the command has been executed, or says why it was not.
	// Then all that was started is killed.
	Confirm func(ctx context.Context) (Launched, error)

	// Ended is called when nothing is left of what the launcher started and before
	// the Sink is told, also if Confirm fails. Not if the launcher cannot be
	// started at all. May be nil.
	Ended func()
}

// A LaunchError says that the launcher itself could not be started. It is not
// about the command.
type LaunchError struct{ Err error }

func (e *LaunchError) Error() string { return "cannot start the launcher: " + e.Err.Error() }
func (e *LaunchError) Unwrap() error { return e.Err }

// Launched is what a launcher that stays has started. It belongs to the Process
// from then on.
type Launched struct {
	Leader *os.File // pidfd of the command, which leads a session; nil: unknown
	Pid    int      // and its number here
	Init   *os.File // pidfd of a process with which all others end; nil: none
}

// Close gives up what names the processes.
func (l *Launched) Close() {
	for _, f := range []*os.File{l.Leader, l.Init} {
		if f != nil {
			f.Close()
		}
	}
}

// Mounts says which mounts a launcher finds.
type Mounts int

// The choices. A private copy does not change when somebody mounts something.
const (
	SharedMounts  Mounts = iota // those of this program
	PrivateMounts               // a private copy; needs the right to mount
	PrivateAsUser               // a private copy in a user namespace of its own
)

// initWait is how long the end of a launcher's last process is awaited. Only one
// that is stuck in the kernel takes longer.
const initWait = 2 * time.Second
