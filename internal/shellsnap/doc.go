// Package shellsnap spares commands the start-up files of their shell.
//
// The state that a login shell has after its start-up files, a [Snapshot], is
// captured once and kept in memory: functions, aliases, options, the file mode
// mask, and how the environment was changed. Later commands run in a shell that
// reads no start-up files and restores the snapshot first. What a command sees is
// meant to be the same; where that cannot be had, there is no snapshot and the
// command runs as it was asked for.
//
// A snapshot is text that came from a shell, perhaps from a confined one whose
// start-up files are anybody's. It is only ever run by a shell that could have
// run those files as well: the caller's key must tell apart all that may differ
// in what it is allowed to do. It travels in the environment of that shell, not
// in a file, so that nobody else can change it.
package shellsnap
