// Package search finds lines in the output of a process, where the output is: over
// the whole log, in one pass, with little memory and within a time. It reads as an
// observer does: nothing is kept for it, and nothing counts as read.
//
// A line consists of bytes of one stream, however these came in pieces and between
// those of other streams. Lines are counted in the order in which they began, from
// the oldest output that is held.
package search
