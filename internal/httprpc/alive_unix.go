//go:build unix

package httprpc

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp tells whether the peer's end of the connection has already arrived.
// The watch over an idle connection may not have come to read it yet.
func hungUp(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		waiting := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
		gone = n <= 0 && !waiting
	})
	return gone || err != nil
}
