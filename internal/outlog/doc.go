// Package outlog keeps the output of one process as a numbered, bounded,
// append-only log, so that a reader that was away can ask for the entries it missed.
//
// It promises:
//
//   - Events are numbered from 1 without gaps: output, then exit and close in the
//     same sequence. Output may follow the exit, nothing follows the close.
//   - Readers hold cursors and never consume anything.
//   - Entries that were not released are kept until the log ends. Of the released entries,
//     the newest are kept too (Config.Retain). Entries are released when they were sent
//     to a connection, or when the client has acknowledged them (Config.Acks).
//   - When the unreleased entries reach their limit, Append waits, and the child's
//     pipe fills up (back-pressure).
//
// The newest megabyte is in memory. Older entries go to a spool file, which
// has no name and ends with the log.
//
// A log with a slot of an arena (Config.Slot) survives its process: Reopen continues it in
// another one, with the same entries, numbers and times. It takes output from pipes and
// terminals itself (Fill), so that none is lost in between.
//
// Where a change belongs: log.go has the calls of the process; history.go the
// entries, their numbers and costs; memory.go where these are stored, on the heap or in an
// arena, and what a process that dies leaves; fill*.go output from descriptors; reopen.go the
// log of another process; release.go when entries may be forgotten; room.go
// the waiting of Append; overflow.go which segments go to disk; spool.go the file, and
// the pool that the logs of a server share; disk_*.go system calls for disk space;
// segment.go a run of entries and its form on disk; stream.go the names of the streams;
// read.go, back.go and tail.go the readers; listeners.go callbacks for new entries.
package outlog
