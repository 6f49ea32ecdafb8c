// Package ports has forwarded connections: TCP connections whose bytes travel in the messages of a session, so that they survive its connections.
//
// A [Pipe] is one end of a forwarded connection, at the server or at the client. It reads its socket into a bounded buffer, which keeps each byte until the
// other end has acknowledged it, and hands bytes of the other end to the socket in their order. When the session is resumed, Attach lets it go on where the
// other end says. Neither end gets a byte twice, and none is lost.
//
// A [Table] has the pipes of one session at the server, and makes their connections to targets.
package ports
