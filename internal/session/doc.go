// Package session keeps one client's state across connections: its processes, the
// attached connection, and the time of its expiry.
//
// It promises:
//
//   - A session outlives its connections. Its processes run on while no client is
//     attached, until the session's time to live is over.
//   - Output stays until the client has got it. A closed process can still be read for
//     a while; time without a client does not count.
//   - A start, write or signal that a client sends again after a lost answer takes
//     effect once.
//   - End returns when nothing is left of what the session started.
//
// A session knows no connection. It calls a [Peer] for six things: to push the events
// of a process, to find out whether the client is alive, and whether it was heard
// since a given time, to send the client a request, to send it a notification, and to
// evict it when it has lost the session.
//
// Where a change belongs: table.go has the sessions of a server; session.go the
// session and its end; attachment.go the attached peer, resuming, and where pushing
// begins; start.go the start of a process; process.go the other requests about a
// process; read.go process/read; retention.go when a process is forgotten; writes.go
// writes and actions that take effect once; errors.go errors and limits. How a command
// is started is in package launch, how its output is kept in package outlog.
package session
