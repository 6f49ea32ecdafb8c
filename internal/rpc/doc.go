// Package rpc runs JSON-RPC 2.0 (without its version member) over a stream of
// messages: a WebSocket, or lines of standard input and output.
//
// A Conn has one reader and one writer. The reader hands every request to the
// Handler in order. It does not wait for the writer, unless the peer has as many
// unanswered requests as it may have. The writer sends answers first, then
// notifications: it asks the sources in turn for one message each. It asks a source
// for more only when the stream has taken the last batch. Nothing else buffers
// notifications.
//
// Where a change belongs:
//   - conn.go: begin and end of a connection, notifications; call.go: requests that this side sends
//   - reader.go: handling a message that has arrived; request.go: a request of the peer and its answer
//   - writer.go: which goroutine writes, and when; queue.go: messages that wait to be written; batch.go: the messages of
//     one write; pieces.go: a message that is made while it is written; feed.go: sources of messages
//   - allowance.go: limits of one connection; memory.go: limits of all connections of a server together
//   - liveness.go: whether the peer is alive, with moment.go (a time on the monotonic clock) and acknowledged_*.go (bytes that
//     TCP has acknowledged)
//   - stream.go: the interface Stream; websocket.go and lines.go: its two implementations; trywrite_*.go: a write that
//     does not wait
package rpc
