// Package schedule decides which request of a connection may run now. It knows keys and paths, but neither JSON nor
// connections.
//
// The results are those of running the requests one by one in order of arrival, as far as keys and paths can tell. But
// a request waits only for the requests that it depends on:
//   - Jobs with the same key begin in order, and an exclusive job ends before the next one begins (schedule.go).
//   - A job waits for earlier jobs that use the same path, the directory above it or something below it, if one of the two
//     changes something there (paths.go).
//
// Every submitted job runs, also when the connection has ended meanwhile.
package schedule
