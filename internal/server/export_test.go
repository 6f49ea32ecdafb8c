package server

// MaxConnections is maxConnections, for tests.
const MaxConnections = maxConnections

// SetConnections pretends that so many clients are connected.
func SetConnections(s *Server, n int64) { s.connections.Store(n) }
