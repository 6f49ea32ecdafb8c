package observe

import (
	"errors"
	"net/netip"
)

// A Listener is a TCP socket on which a process waits for connections.
type Listener struct {
	Address netip.AddrPort
	PID     int
	Name    string // of the program
	Inside  bool   // the process has a network of its own
}

// ErrNotInside means that nothing of a process listens on a port in a network of its own.
var ErrNotInside = errors.New("the process does not listen on this port in a network of its own")
