// Package executor lets a server take part in a fleet under a name. It holds the lease of the name, tells gateways how busy the host is,
// and serves the clients that they send.
//
//	executor.go  the lease and the beats; begin and end
//	links.go     links of clients: their sessions, and which of two links of a session is the newer one
//	collect.go   long frames for clients that get much
//	ended.go     records of sessions that have ended
//	gateways.go  finds out that a gateway has died
//	load_*.go    how busy the machine is
package executor
