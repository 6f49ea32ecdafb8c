package proc

import (
	"syscall"
	"time"
)

// A tree is a child and everything that it started. Its methods may be called
// concurrently, but not after release has returned true.
type tree interface {
	// signal sends sig to each of its processes.
	signal(sig syscall.Signal)
	// signalBut is signal without one of them.
	signalBut(sig syscall.Signal, pid int)
	// kill kills them and returns when they are gone, or after killWait.
	kill()
	// await returns when all have ended, or at the deadline.
	await(deadline time.Time)
	// empty reports whether all have ended.
	empty() bool
	// survivors describes processes that have not ended although they were killed, at most survivorsNamed.
	survivors() []Survivor
	// release gives up the tree of a closed child, if it is certain that all have
	// ended. view reads the process table; nil means that this is too expensive now.
	release(view tableView) bool
}

// A tableView returns all processes of the system, possibly from an earlier read.
type tableView func() processTable
