// Package audit records what clients do on this machine, one JSON object per line: in a file that it rotates, on standard error, or in
// the log of the system.
//
// It promises that recording never waits. A queue (internal/linequeue) writes the lines in order. At the limit of the queue lines are
// dropped and counted, or, if the administrator wants that, [Log.Ready] refuses what would have to be recorded. A line in the file is
// always whole.
//
// Where a change belongs: event.go has the events and their fields, log.go how they are queued, file.go the file and its rotation,
// target.go the other places.
package audit
