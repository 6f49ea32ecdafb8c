// Package watch tells a client when a path that did not exist comes into being,
// so that the client may remember until then that it does not exist.
//
// A watch that is doubtful fires, or is refused: a client must never get silence
// after a change.
//
// Where a change belongs: watcher.go has the watch of a connection and its requests; chain_linux.go opens the part
// of a path that exists, and refuses paths that cannot be watched; watch_linux.go waits for changes (inotify).
package watch
