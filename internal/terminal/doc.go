// Package terminal is the user's end of a command that runs elsewhere: the standard streams of
// this program, which may be a terminal.
//
// A [Session] connects them with one command. It promises that
//
//   - all output is written in order, and standard output and standard error do not delay each
//     other, unless they are the same file;
//   - signals, keys and the size of the terminal reach the command, also while its output has to
//     wait, and the escape keys work while the command does not read;
//   - the terminal has its old mode when Stream returns.
//
// Where a change belongs:
//
//	stream.go     Session: output, signals, timeouts, the end
//	keyboard.go   input, and the escape keys
//	status.go     the line that reports a lost connection
//	progress.go   the line that shows the progress of a copy
//	signals.go    which signals are passed on
//	terminal*.go  raw mode, size, what differs between systems
//	stdio.go      reads and writes of standard streams that can be interrupted
//	output.go     errors of the output of this program
//	log.go        the output of a process by lines, for `tether logs`
//	table.go      columns
//	text.go       sizes, times and names for people, cut to what fits
//
// The package knows no flags and no exit codes; cmd/tether has those.
package terminal
