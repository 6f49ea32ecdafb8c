// Package statedir owns the state directory of this user: $XDG_STATE_HOME/tether, or another one that a server was given.
//
// All servers of the user share the directory, and each has a directory of its own in it ([Dir.Own]). A server locks its
// own directory as long as it runs. The next server that opens the shared directory removes those whose lock is free,
// together with the uploads and commands that their servers left.
//
// A durable server is found again by the next durable one: its directory has a fixed name ([OpenDurable]), and is removed
// only when the server ends in order.
//
// The content of the directory decides which files are removed and which processes are killed. So [Trusted] refuses a
// directory that another user could change or replace.
//
// Where a change belongs:
//   - statedir.go: the directory of one server, and the sweep
//   - durable.go: the directory of a durable server, and its memory file
//   - default.go, private.go: where the directories of this user are, and which of them sandboxes hide
//   - trust_*.go: which directories are safe to use
package statedir
