// Package websocket has the rules of the WebSocket protocol (RFC 6455) as plain functions: the header of a frame,
// masking, close codes, and both ends of the opening handshake. It has no connection and no buffer, so that the
// writer of a connection can build frames in place and send several with one system call. It never negotiates an
// extension or a subprotocol.
//
// frame.go has frames; handshake.go has the upgrade of an HTTP/1.1 connection. Messages, fragments, limits and
// pings are the task of the packages that use it: internal/rpc, internal/cable and internal/bridge.
package websocket
