// Package search finds lines in the output of a process, on the executor: over the
// whole log, in one pass, with little memory and a time limit. It reads as an
// observer does: it pins no entries, and nothing counts as read.
//
// A line consists of bytes of one stream, however they are divided into entries and
// mixed with other streams. Lines are counted in the order in which they began,
// from the oldest output that is kept.
//
// Where a change belongs: query.go checks the parameters; scan.go reads the log.
package search
