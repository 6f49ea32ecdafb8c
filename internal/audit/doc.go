// Package audit records what clients do on this machine, one JSON object per line: in a file that it rotates, on standard error, or in
// the log of the system.
//
// It promises that recording never waits. A writer of its own writes the lines in order. Lines that cannot be written wait in a queue
// with a limit; at the limit they are dropped and counted, or, if the administrator wants that, [Log.Ready] refuses what would have to be
// recorded. A line in the file is always whole.
//
// Where a change belongs: event.go has the events and their fields, log.go the queue and its writer, file.go the file and its rotation,
// target.go the other places.
package audit
