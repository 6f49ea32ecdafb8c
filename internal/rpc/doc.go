// Package rpc runs JSON-RPC 2.0 (without its version member) over a stream of
// messages: a WebSocket, or lines of standard input and output.
//
// A Conn has one reader and one writer. The reader hands every request to the
// Handler in order and does not wait for the writer, unless the peer has as many
// unanswered requests as it may have. The writer sends answers first, then
// notifications of the sources that have some, in turn, one message each; it
// asks a source for more only when the stream has taken the last batch.
// Nothing else buffers notifications.
//
// Where a change belongs:
//   - conn.go: how a connection begins and ends, and its notifications; call.go: requests of ours
//   - reader.go: a message that has arrived; request.go: a request of the peer and its answer
//   - writer.go: who writes and when; queue.go: what waits to be written; batch.go: what one write consists of; pieces.go:
//     a message that is made while it is written; feed.go: sources of messages
//   - allowance.go: what the messages of a connection may hold; memory.go: what those of all connections of a server may
//   - liveness.go: whether the peer is there
//   - stream.go: what a Stream is; websocket.go and lines.go: the two that there are
package rpc
