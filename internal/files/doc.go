// Package files implements the file methods of the protocol (fs/…).
//
// [Files] is the interface that a request needs. [Direct] serves it with the permissions of this process, [Screened]
// reads with a check of each file, and package files/confined serves it inside a sandbox. Promises: a request that must
// not follow links never does, even if another program renames files meanwhile; no request waits for a FIFO, a terminal
// or a device; a file that is written has its old or its new content, wherever a rename changes nothing else about the
// file. Errors are *[Error] with the text and code of the wire.
//
// Where a change belongs:
//
//   - files.go: the interface and the limits; errors.go: texts and codes; direct.go: which paths are accepted.
//   - resolve_linux.go: from a path to a name in an open directory. Everything below starts there.
//   - screened_linux.go: reading with a check of each file.
//   - read_linux.go, cached_linux.go (small files without waiting), metadata_linux.go, list_linux.go and
//     directory_linux.go, walk.go with walk_linux.go: requests that only read.
//   - write_linux.go decides how a file is written; replace_linux.go puts a new file in place of the old one;
//     remove_linux.go, copy_linux.go, attributes.go: the other changes.
//   - direct_other.go, walk_other.go: the same with the os package, for systems that are not Linux.
//
// Below are files/at (descriptors, replacing a file), files/upload (files in blocks), files/watch (paths that
// do not exist yet) and files/confined.
package files
