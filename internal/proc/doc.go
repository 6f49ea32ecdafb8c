// Package proc supervises child processes: it starts them on pipes or on a
// terminal, feeds their input, carries their output to a [Sink], reports their exit,
// and kills everything that they started.
//
// It promises:
//
//   - A child costs no thread and no read buffer while it is silent: exit and
//     output are awaited in the runtime's poller.
//   - A signal never reaches an unrelated process: the child is reaped last, so its pid and
//     process group stay reserved for as long as they may be signalled.
//   - Output is never dropped unless the process is terminated or killed. Exit and close are
//     two events, because a grandchild may hold the pipes open after the exit.
//   - Terminate and Kill never wait for input or output. A kill is verified: processes that are left are reported, with
//     the reason ([Process.Survivors]).
//   - A process that has exited has an account of what its tree has used ([Process.Usage]).
//   - A process that has a slot ([Spec.Slot]) survives this program: another one adopts it with
//     [Supervisor.Adopt], at whatever instruction this one has died. The [Keeper] holds its
//     descriptors meanwhile.
//   - A process with limits ([Spec.Limits]) gets no more, with everything that it starts, or is not
//     started. [Process.Limits] says how each is enforced.
//   - Each goroutine belongs to the [Supervisor], and [Supervisor.Close] waits for it. The
//     exception is [Abandonable].
//
// The package knows nothing of connections, sessions or encodings.
//
// Where a change belongs: supervisor.go has the supervisor, the [Spec] of a start and the
// [Sink]; process.go the life of one process; output.go and stdin.go its streams; capture.go
// a sink for little output; errors.go the errors; timeout.go calls that may hang; find_unix.go
// the search for the program; host_*.go and fork_linux.go the start of a child on each system
// (on Linux, package fork has the system calls);
// inherit_linux.go inherited descriptors and signals; tree*.go, scan_linux.go and
// cgroup_linux.go how everything that a child started is found and killed; reap_linux.go
// orphans; limits*.go and limitgroups_linux.go the limits of a process, and controllers_linux.go where control groups
// can enforce them; members_linux.go the members and CPU time of a tree, for lists; usage.go what a process has used;
// survivor*.go what a kill has left; launcher*.go a
// program that starts the command in its place, such as a sandbox; keeper.go, kept_*.go and
// keptstdin.go processes that survive this program; notes_linux.go and
// sweep*.go how a server ends the commands of a killed one; sys_unix.go system calls.
package proc
