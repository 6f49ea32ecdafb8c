package observe

import "net/netip"

// A Listener is a TCP socket on which a process waits for connections.
type Listener struct {
	Address netip.AddrPort
	PID     int
	Name    string // of the program
	Inside  bool   // the process has a network of its own, which this machine cannot reach
}
