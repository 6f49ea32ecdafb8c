// Package copy is the engine of `tether cp`: it copies files and directories between this machine
// and that of a server, and within the latter.
//
// It promises that
//
//   - a file takes its place when it is whole: uploads through the server's upload methods,
//     downloads through a file beside the target that is renamed;
//   - the same copy again, after an interruption, goes on where it was (see [Journal]);
//   - a file that cannot be copied is reported and does not stop the others;
//   - names that a server sends lead nowhere outside of the destination.
//
// [Run] first plans what is to be made, then makes directories, files, links and last the times
// and permissions of directories.
//
// Where a change belongs:
//
//	copy.go        Run, its Config and what it reports; several files at a time
//	plan.go        which files, directories and links are to be made
//	upload.go      from here to the server
//	download.go    from the server, through a partial file
//	journal.go     what is remembered between two runs
//	attributes.go  times and permissions; copies within the server's machine
//	remote.go      paths, lists and errors of the server's machine, also for `tether fs`
//	umask_*.go     permissions that new files here do not get
//
// The package prints nothing and knows no flags: cmd/tether implements [Reporter].
package copy
