package server

import "github.com/tetherexec/tether/internal/rpc"

// MaxConnections is maxConnections, for tests.
const MaxConnections = maxConnections

// SetConnections pretends that so many clients are connected.
func SetConnections(s *Server, n int64) { s.connections.Store(n) }

// FillOutgoing takes all room for answers that connections share. free gives it back.
func FillOutgoing(s *Server) (free func()) {
	if !s.memory.TryBuffer(rpc.MaxOutgoing) {
		panic("there are answers")
	}
	return func() { s.memory.FreeBuffer(rpc.MaxOutgoing) }
}
