//go:build !linux

package web

import "net"

// acked is not known on this system.
func acked(net.Conn) (n uint64, ok bool) { return 0, false }
