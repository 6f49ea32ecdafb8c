// Package server is the exec server: it owns the handshake, the table of methods, the table of errors, the pushing of
// output, and an orderly end.
//
// It promises that every request is answered exactly once, that a request which waits delays only those that depend on it,
// and that a client never sees output of a process before the answer to its start.
//
// Package listen lets clients in. A request passes rpc.Conn, conn.Request (request.go), its row in methods (methods.go),
// schedule, the function of the row, and session. Where a change belongs:
//   - methods.go: a row for each method; order.go: which requests keep their order
//   - handshake.go: initialize, and the features that are announced; errors.go: codes of errors
//   - process.go, read.go, list.go, inspect.go: methods about the client's processes
//   - other_sessions.go, observe.go: methods about processes of other sessions; signal_*.go: names of signals
//   - files.go, readfile.go, handles.go, uploads.go: methods about files; http.go, environment.go: the other methods
//   - push.go: output events for the client of a session
//   - server.go: begin and end of the server; conn.go: begin and end of a connection; config.go: settings; metrics.go
package server
