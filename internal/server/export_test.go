package server

import "github.com/tetherexec/tether/internal/rpc"

// FillOutgoing takes all room for answers that connections share. free gives it back.
func FillOutgoing(s *Server) (free func()) {
	if !s.memory.TryBuffer(rpc.MaxOutgoing) {
		panic("there are answers")
	}
	return func() { s.memory.FreeBuffer(rpc.MaxOutgoing) }
}
