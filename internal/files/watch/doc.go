// Package watch reports to a client when a missing path is created, so that the
// client may remember until then that it does not exist.
//
// A watch in doubt fires, or is refused: a change must never stay unreported.
//
// Where a change belongs: watcher.go has the watch of a connection and its requests; chain_linux.go opens the part
// of a path that exists, and refuses paths that cannot be watched; watch_linux.go waits for changes (inotify).
package watch
