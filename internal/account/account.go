// Package account has the figures of what a command has used until its exit, and reads them from control groups and
// from the resource usage that the system returns with an exit.
//
// It promises:
//
//   - A figure that the system does not have is marked as not known. It is never 0 instead.
//   - Each figure says what it covers: the whole tree of the command, or a part of it ([Scope]).
//   - Reading takes a few small files of the kernel and never waits.
//
// Where a change belongs: account.go has the figures; group.go reads control groups of both versions;
// rusage_*.go converts what a wait returns.
package account

import "time"

// A Scope says what a figure covers.
type Scope uint8

// The scopes.
const (
	Unknown Scope = iota // there is no figure
	Tree                 // the command and everything that it started, by its control group
	Waited               // the command and the descendants that their parents have waited for
	Largest              // the largest single process among those of Waited
	Bound                // Largest is not known, but it is at most this figure
)

// Usage is what a command has used until its exit. Processes that it has left in the background may use more later.
type Usage struct {
	Wall    time.Duration // from the start to the exit
	Blocked time.Duration // the part of Wall in which its output was not read because its log was full

	CPU    CPU
	Memory Memory
	IO     IO

	Processes uint64 // the most that existed at the same time; 0: not known
	Kill      Kill
}

// CPU is the time on processors.
type CPU struct {
	User, System time.Duration
	Of           Scope // Tree or Waited
}

// Memory is the most memory that was in use at a time.
type Memory struct {
	Bytes uint64
	Of    Scope // Tree, Largest or Bound
}

// IO is what was read from and written to disks, not to caches, pipes or networks. Writes count when they reach
// the cache of the file system (Waited), or the disk (Tree), whichever is more.
type IO struct {
	Read, Written uint64 // bytes
	Of            Scope  // Tree or Waited
}

// Kill tells that the system has killed processes of the command because there was no memory for them.
type Kill struct {
	Processes uint64 // how many; 0: none, or not known
	Cause     Cause
	Limit     uint64 // bytes of the limit that is the cause; 0: not known
}

// A Cause says why there was no memory.
type Cause uint8

// The causes. The numbers are the same in all versions: slots have them.
const (
	Outside    Cause = iota // a limit of which the server does not know, or the machine had no memory left
	OwnLimit                // the limit of the command
	TotalLimit              // the limit of all commands of the server
)

// Figures are what the system returns with the exit of a process: figures of the process and of all descendants that
// their parents have waited for.
type Figures struct {
	User, System  time.Duration
	Largest       uint64 // bytes of the largest process
	Read, Written uint64 // bytes
	IO            bool   // Read and Written are known
}

// Usage returns the figures as a Usage.
func (f *Figures) Usage() Usage {
	u := Usage{CPU: CPU{f.User, f.System, Waited}}
	if f.Largest > 0 {
		u.Memory = Memory{f.Largest, Largest}
	}
	if f.IO {
		u.IO = IO{f.Read, f.Written, Waited}
	}
	return u
}

// UsageOf is Usage for a child of this program. inherited is how much memory this program may have had when it made the
// child: the kernel counts that as memory of the child, too, because both shared it until the command was executed.
// 0: not known.
func (f *Figures) UsageOf(inherited uint64) Usage {
	u := f.Usage()
	if u.Memory.Of == Largest && (inherited == 0 || f.Largest <= inherited+inheritedMargin) {
		u.Memory.Of = Bound
	}
	return u
}

// inheritedMargin is by how much the kernel's figures for the same memory may differ: it counts pages for each processor
// and adds them up now and then.
const inheritedMargin = 2 << 20
