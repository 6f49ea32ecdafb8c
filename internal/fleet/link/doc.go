// Package link carries the bytes of one connection between a gateway and a host, as messages of a bus that may lose some.
//
// A [Link] is a net.Conn: an ordered stream of bytes in both directions. Each direction has a window: the sender stops when so many
// bytes are on the way that the reader has not consumed. So a slow reader makes only its own sender wait, and the memory of a link
// is bounded.
//
// Nothing is sent twice. Every frame says at which byte of the stream it begins. If one is missing, the link ends at both ends, as
// if a TCP connection had been reset: the client resumes its session, and the log of the executor has everything.
//
// A [Mux] has the links of one gateway or host. It takes frames from the bus and never waits for a reader.
//
//	frame.go  the frames
//	mux.go    the links of one end; frames that arrive
//	link.go   one link: both directions, its end
//	conn.go   a link as a net.Conn
package link
