// Package appserver is the process API of the Codex app-server: a client starts
// commands on this machine under handles that it chooses, writes to them, gets
// their output and is told how they ended.
//
// It is a thin layer over proc, which runs a command, and outlog, which holds the
// output that the client has still to take: when that is a lot, the command waits.
// A handle belongs to one connection, and when the connection ends, all that it
// started is killed.
//
// What it promises beyond the reference:
//
//   - Kill, timeout and the end of a connection wait for nothing: neither for a
//     command that does not read its input nor for a client that does not read.
//   - A handle is free before the client is told that its process has ended.
//   - A kill reaches all that the command started, not only its process group.
//
// Where a change belongs: server.go has the listener and its settings, conn.go a connection, its handles and its limits,
// methods.go the requests. Of a process, process.go has its life from the start to the end (state, time limit, drain),
// stdin.go its input, output.go what is kept of its output, notes.go the notifications about it.
package appserver
