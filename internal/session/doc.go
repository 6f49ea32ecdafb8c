// Package session keeps one client's state across connections: its processes, who
// is attached, and when it expires.
//
// What it promises:
//
//   - A session outlives its connections. Its processes run on while no client is
//     attached, until the session's time to live is over.
//   - Output stays until the client has got it. A closed process can still be read for
//     a while, and time without a client does not count.
//   - A start, write or signal that a client sends again after a lost answer takes
//     effect once.
//   - End returns when nothing is left of what the session started.
//
// A session knows no connection. It asks a [Peer] for six things: to push the events
// of a process, to prove that the client is there, to say whether it was heard since a
// given time, to ask the client, to tell it something, and to go away when the session
// is gone.
//
// Where a change belongs: table.go has the sessions of a server; session.go what a
// session is and how it ends; attachment.go who is attached and from where on it is
// pushed events; start.go the start of a process; process.go what a client does with
// one; read.go process/read; retention.go when a process is forgotten; writes.go what
// happens once. How a command is started is in package launch, what is kept of its
// output in package outlog.
package session
