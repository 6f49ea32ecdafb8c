package proc

import (
	"context"
	"os"
	"time"
)

// A Launcher is a program that runs the command of a [Spec], in an environment that
// it prepares first, such as a sandbox. It is started in /, and its descriptors
// are:
//
//	0, 1  the terminal, or nothing
//	2     Stderr
//	3–5   the command's 0–2
//	6, …  the Spec's Files
//
// Except for the descriptors, the launcher gets the command from its maker: Argv,
// Env and Dir of the Spec are only checked.
type Launcher struct {
	Argv   []string // Argv[0] is an absolute path, unless Path is
	Path   string   // of the program; empty: Argv[0]
	Env    []string
	Stderr *os.File // for messages of the launcher itself
	Mounts Mounts

	// First, if not nil, makes the launcher the first process of a pid namespace of its own, with mounts of its own,
	// and with these other namespaces. Then Mounts is not used. Its end ends all processes that it has started.
	First *Namespaces

	// Stays says that the launcher remains as the parent of the command, which gets
	// a session of its own, with the terminal. Then SIGTERM and other signals go to
	// the command. When the launcher ends, all its descendants must end with it.
	Stays bool

	// LimitsFiles says that the launcher itself gives the command its limit of open files. Until then the launcher has the
	// limit of this program, because it may have to open more files than its command.
	LimitsFiles bool

	// Confirm waits until the command has been executed, or returns why it was not.
	// After an error everything that was started is killed. Confirm calls keep with what the
	// launcher has reported, and with the sockets on which Confirm lets the command be served, before
	// it removes the report from the queue of Report.
	Confirm func(ctx context.Context, keep func(Launched, []*os.File) error) (Launched, error)

	// Report is where Confirm learns that the command was executed, and Locks are descriptors whose locks must
	// be held while the launcher runs. If the process has a slot, they survive this program. Both may be nil.
	Report *os.File
	Locks  []int

	// Ended is called when all processes that the launcher started have ended,
	// before Sink.Exit, also if Confirm fails. It is not called if the launcher
	// itself cannot be started. May be nil.
	Ended func()
}

// A LaunchError says that the launcher itself could not be started. The command is
// not the cause.
type LaunchError struct{ Err error }

func (e *LaunchError) Error() string { return "cannot start the launcher: " + e.Err.Error() }
func (e *LaunchError) Unwrap() error { return e.Err }

// Launched describes the processes that a launcher that stays has started. It then
// belongs to the Process.
type Launched struct {
	Leader *os.File // pidfd of the command, which leads a session; nil: unknown
	Pid    int      // its number in this pid namespace
	Init   *os.File // pidfd of a process whose end ends all others; nil: that is the launcher itself, see First
}

// Close closes the descriptors.
func (l *Launched) Close() {
	for _, f := range []*os.File{l.Leader, l.Init} {
		if f != nil {
			f.Close()
		}
	}
}

// Namespaces are namespaces of a launcher's own. In a user namespace it has the rights to change its mounts and its
// network, also after it was executed.
type Namespaces struct {
	User, IPC, Net bool

	// NetUnused says that no process of the launcher can use its network, so that several launchers may have the same.
	NetUnused bool
}

// Mounts says which mounts a launcher sees.
type Mounts int

// The choices. A private copy does not change with later mounts of other processes.
const (
	SharedMounts  Mounts = iota // those of this program
	PrivateMounts               // a private copy; needs the right to mount
	PrivateAsUser               // a private copy in a user namespace of its own
)

// initWait is how long the end of Launched.Init is awaited. Only a process that is
// stuck in the kernel takes longer.
const initWait = 2 * time.Second
