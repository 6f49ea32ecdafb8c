// Package rpc runs JSON-RPC 2.0 (without its version member) over a stream of
// messages: a WebSocket, or lines of standard input and output.
//
// A Conn has one reader and one writer. The reader hands every request to the
// Handler in order and does not wait for the writer, unless the peer has as many
// unanswered requests as it may have. The writer sends answers first, then
// notifications of the sources that have some, in turn, one message each; it
// asks a source for its next message only when the stream has taken the last.
// Nothing else buffers notifications.
package rpc
