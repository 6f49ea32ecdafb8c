// Package shellsnap spares commands the start-up files of their shell.
//
// The state of a login shell after its start-up files, a [Snapshot], is captured
// once and kept in memory: functions, aliases, options, the file mode mask, and
// changes of the environment. Later commands run in a shell that reads no start-up
// files and restores the snapshot first. A command is meant to see the same state
// as in a login shell. If that cannot be achieved, there is no snapshot and the
// command runs as it was requested.
//
// A snapshot is text from a shell, perhaps from a confined shell whose start-up
// files are not trusted. It is only ever run by a shell that could have run those
// files too: the caller's key must differ for all commands that differ in what they
// are allowed to do. The snapshot is passed in the environment of that shell, not
// in a file, so that no other process can change it.
//
// Where a change belongs: want.go checks requests; cache.go keeps the snapshots of
// a session; capture.go runs a shell, script.go has the script that prints its
// state, snapshot.go reads that; restore.go makes the command that restores it.
package shellsnap
