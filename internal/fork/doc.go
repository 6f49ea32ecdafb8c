// Package fork starts programs on Linux. It replaces [syscall.ForkExec] for the commands of a
// server, for three reasons:
//
//   - A start takes the same time however many descriptors and however much memory this program
//     has: the child shares both with it until it has left all descriptors but its own, and until
//     it executes its program.
//   - A child that hangs before its program runs, as on a dead disk, holds up one thread. The
//     garbage collector and all other goroutines go on. ([syscall.ForkExec] holds a processor of
//     the scheduler from the clone to the exec.)
//   - The kernel stores the child's pid, and the child the reason of a failed start, in memory
//     that the caller chooses ([Note]), and the pid before the child runs.
//
// It promises that the program has exactly the descriptors of its [Command], also those that
// another goroutine has open without close-on-exec; that its signals are unblocked, with their
// default actions unless this program ignores them; and that its limit of open files is the one
// that this program was started with, which package syscall raises for the program itself, unless
// the command has one of its own.
//
// Between the clone and the exec the child executes a list of system calls and nothing else: no
// Go code, no stack, no memory but the list and what it points to. [Starter] compiles the list,
// and the assembly in clone_linux_*.s runs it. So the child cannot disturb the program whose
// memory it shares.
//
// Where a change belongs: command_linux.go has what a caller sees; starter_linux.go the order of
// a start and what is done where the kernel lacks a call; calls_linux.go the list that the child
// executes; files_linux.go the descriptors; clone_linux.go and clone_linux_*.s the clone itself;
// forkexec_linux.go starts by the standard library, for processors without assembly here. Package
// nofile has the limit of open files that this program was started with.
package fork
