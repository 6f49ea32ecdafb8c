// Package copy is the engine of `tether cp`: it copies files and directories between this machine
// and that of a server, and within the latter.
//
// It promises that
//
//   - a file replaces its target only when it is complete: uploads through the server's upload
//     methods, downloads through a file beside the target that is renamed;
//   - after an interruption, the same copy continues where it stopped (see [Journal]);
//   - a file that cannot be copied is reported and does not stop the others;
//   - no name that a server sends leads outside the destination.
//
// [Run] first makes a plan, then makes directories, files and links, and at last sets the times
// and permissions of directories.
//
// Where a change belongs:
//
//	copy.go        Run, its Config and its reports; several files at a time
//	plan.go        which files, directories and links are to be made
//	upload.go      from this machine to the server
//	download.go    from the server, through a partial file
//	journal.go     the progress that is kept between two runs
//	attributes.go  times and permissions; copies within the server's machine
//	remote.go      paths, lists and errors of the server's machine, also for `tether fs`
//	umask_*.go     permissions that new local files do not get
//
// The package prints nothing and knows no flags: cmd/tether implements [Reporter].
package copy
