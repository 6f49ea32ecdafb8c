// Package outlog keeps the output of one process as a numbered, bounded,
// append-only log, so that a reader that was away can ask for what it missed.
//
// What it promises:
//
//   - Events are numbered from 1 without gaps: output, then exit and close in the
//     same sequence. Output may follow the exit, nothing follows the close.
//   - Readers hold cursors and never consume anything.
//   - What was not released is kept until the log ends; of what was released, the
//     newest part is kept as well (Config.Retain). Entries are released when a
//     connection was sent them, or when the client has acknowledged them (Config.Acks).
//   - When the part that is not released reaches its limit, Append waits, and the
//     child feels that as a full pipe.
//
// The newest megabyte lives in memory. Older entries go to a spool file, which
// has no name and is gone with the log.
//
// Where a change belongs: log.go has the calls of the process; history.go the
// entries, their numbers and costs; release.go when entries may be forgotten; room.go
// where Append waits; overflow.go which segments go to disk; spool.go the file, and
// the pool that the logs of a server share; segment.go a run of entries and its form
// on disk; read.go and tail.go the readers; listeners.go who is told of new entries.
package outlog
