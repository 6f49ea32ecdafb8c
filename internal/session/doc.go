// Package session keeps one client's state across connections: its processes, the
// attached connection, and the time of its expiry.
//
// It promises:
//
//   - A session outlives its connections. Its processes run on while no client is
//     attached, until the session's time to live is over.
//   - Output stays until the client has got it. A closed process can still be read for
//     a while; time without a client does not count.
//   - One connection is attached at a time. If a second one asks for the session, the
//     first keeps it if it proves to be alive, and is evicted otherwise.
//   - A session belongs to a principal. For all others it looks as if it did not exist.
//   - If a client sends a request again after a lost answer, the request takes effect
//     once: a write always, a start that is marked as a retry, and a signal or an end
//     of input that has an id.
//   - With [Config.Kept], sessions and processes survive this program: [Table.Restore] of another
//     one brings them back, and the promises above hold across the change.
//   - End returns when nothing is left of what the session started.
//
// A session knows no connection. It calls a [Peer] for six things: to push the events
// of a process, to find out whether the client is alive, and whether it was heard
// since a given time, to send the client a request, to send it a notification, and to
// evict it when it has lost the session.
//
// Where a change belongs: table.go has the sessions of a server; owner.go to whom they belong; session.go the
// session and its end; attachment.go the attached peer, the second connection that
// resumes, and where pushing begins; start.go the processes of a session, the start of
// one, and a start that is repeated ([launch.Same] compares it with the first);
// process.go the other requests about a process; read.go process/read; retention.go
// how long a closed process is kept; writes.go which writes, signals and ends of input
// are remembered as done; journal.go what is recorded about sessions and processes, and
// restore.go how that is read; errors.go the errors, and the limits on sessions, processes
// and observers. How a command is started is in package launch, how its output is kept
// in package outlog.
package session
