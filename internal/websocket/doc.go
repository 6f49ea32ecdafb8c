// Package websocket has the rules of the WebSocket protocol (RFC 6455) as plain functions: the header of a frame,
// masking, close codes, and both ends of the opening handshake. It holds no connection and no buffer, so that the
// writer of a connection can build frames in place and send several with one system call. No extension and no
// subprotocol is ever agreed on.
//
// frame.go has frames; handshake.go has the upgrade of an HTTP/1.1 connection. Messages, fragments, limits and
// pings belong to the users: internal/rpc, internal/cable and the bridge.
package websocket
