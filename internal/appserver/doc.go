// Package appserver is the process API of the Codex app-server: a client starts
// commands on this machine under handles that it chooses, writes to them, and gets
// their output and their exit codes.
//
// It is a thin layer over proc, which runs a command, and outlog, which holds the
// output that the client has not read: when that is a lot, the command waits.
// A handle belongs to one connection. When the connection ends, everything that it
// started is killed.
//
// It promises, beyond the reference:
//
//   - Kill, timeout and the end of a connection never wait for a
//     command that does not read its input, nor for a client that does not read.
//   - A handle is free before the client is told that its process has ended.
//   - A kill reaches everything that the command started, not only its process group.
//
// Where a change belongs: server.go has the listener and its settings; conn.go a connection, its handles and limits;
// methods.go the requests; agent.go the user agent. Of a process, process.go has its life from start to end (state,
// time limit, drain), stdin.go its input, output.go the output that is kept, notes.go the notifications.
package appserver
