// Package outlog keeps the output of one process as a numbered, bounded,
// append-only log, so that a reader who was away can ask for what it missed.
//
// Events are numbered from 1 without gaps: output, then exit and close in the
// same sequence; output may follow exit, nothing follows close. Readers hold
// cursors and never consume anything. What nobody has been sent yet is kept
// until the log ends; of what was sent, the newest part is kept as well
// (Config.Retain). When the unsent part reaches its limit Append waits, and the
// child feels that as a full pipe.
//
// The newest megabyte lives in memory. Older entries go to a spool file, which
// has no name and is gone with the log.
package outlog
