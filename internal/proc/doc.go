// Package proc supervises child processes: it starts them on pipes or on a
// terminal, feeds their input, carries their output to a [Sink], reports how
// they ended, and kills all that they started.
//
// What it promises:
//
//   - A child costs no thread and no read buffer while it is silent: exit and
//     output are awaited in the runtime's poller.
//   - A signal never reaches a stranger: the child is reaped last, so its pid and
//     process group stay reserved for as long as they may be signalled.
//   - Output is never dropped while the child is left alone. Exit and close are two
//     events, because a grandchild may hold the pipes open after the exit.
//   - Terminate and Kill never wait for input or output.
//   - Each goroutine belongs to the [Supervisor], and [Supervisor.Close] waits for it.
//
// The package knows nothing of connections, sessions or encodings.
//
// Where a change belongs: supervisor.go has what is started and the [Sink]; process.go
// the life of one process; output.go and stdin.go its streams; capture.go the sink for a
// process that says little; host_*.go and fork_linux.go how a system starts a child;
// tree*.go, scan_linux.go and cgroup_linux.go how all that it started is found and killed;
// members_linux.go what lists show of that; launcher*.go a program that starts the command
// in its place; notes_linux.go and sweep*.go what a killed server leaves to the next one.
package proc
