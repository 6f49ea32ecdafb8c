// Package terminal is the near end of a command that runs somewhere else: the standard streams
// of this program, which may be a person's terminal.
//
// A [Session] connects them with one command. It promises that
//
//   - all output arrives in order, and that two streams are independent unless they lead to the
//     same place;
//   - signals, keys and the size of the terminal reach the command, also while its output is held
//     up, and the keys to leave are found while the command does not read;
//   - the terminal is as it was when Stream returns.
//
// Where a change belongs:
//
//	stream.go     Session: output, signals, timeouts, how it ended
//	keyboard.go   input, and the keys to leave
//	status.go     the line that tells of a lost connection
//	progress.go   the line that tells how a copy is going
//	signals.go    which signals are passed on
//	terminal*.go  raw mode, size, what differs between systems
//	stdio.go      reads and writes of standard streams that can be interrupted
//	output.go     errors of our own output
//	log.go        the output of a process by lines, for `tether logs`
//	table.go      columns
//	text.go       sizes, times and names for people, cut to what fits
//
// The package knows no flags and no exit codes; cmd/tether has those.
package terminal
