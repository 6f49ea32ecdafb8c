//go:build amd64 || arm64

package fork

import _ "unsafe" // for go:linkname

// A call is a system call of the child. The assembly knows this layout.
type call struct {
	nr      uintptr
	args    [5]uintptr
	want    uintptr // the result that it must have; 0: any that is not an error
	chained uint32  // 1: the first argument is the result of the call before
	step    Step

	optional uint64 // 1: an error does not matter, and counts as the result
}

// cloneArgs is struct clone_args of the kernel, as of Linux 5.7.
type cloneArgs struct {
	flags, pidfd, childTid, parentTid, exitSignal, stack, stackSize, tls, setTid, setTidSize, cgroup uint64
}

// clone makes a process by the call first, and returns its result: the child's pid, or a negative
// errno. The child executes the calls of rest one after the other. The last must be an execve. If
// one fails, the child stores that in failure and exits.
func clone(first, rest *call, failure *Failure) int64

// The runtime keeps these two for packages outside the standard library.

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// blockingClone is clone as a system call that blocks: this goroutine's processor of the scheduler
// is free for other goroutines until the child has executed its program. The pointers must not
// lead to a stack: stacks move.
//
//go:nosplit
//go:noinline
//go:norace
func blockingClone(first, rest *call, failure *Failure) int64 {
	entersyscallblock()
	result := clone(first, rest, failure)
	exitsyscall()
	return result
}
