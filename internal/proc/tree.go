package proc

import (
	"syscall"
	"time"
)

// A tree is a child and all that it started. Its methods may be called at the same
// time, but none after release has returned true.
type tree interface {
	// signal sends sig to each of its processes.
	signal(sig syscall.Signal)
	// signalBut leaves one of them out.
	signalBut(sig syscall.Signal, pid int)
	// kill kills them and returns when they are gone, or after killWait.
	kill()
	// await returns when all have ended, at the latest at the deadline.
	await(deadline time.Time)
	// empty reports whether all have ended.
	empty() bool
	// release gives the tree up, when its child is closed, if it is certain that all
	// have ended. view is how to look at the process table, or nil: too dear now.
	release(view tableView) bool
}

// A tableView looks at all processes of the system, or has looked lately.
type tableView func() processTable
