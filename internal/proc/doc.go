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
package proc
