package web

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// acked counts the bytes that the peer's system has confirmed. ok is false where
// that cannot be known.
func acked(c net.Conn) (n uint64, ok bool) {
	sc, isSocket := c.(syscall.Conn)
	if !isSocket {
		return 0, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n, ok = info.Bytes_acked, true
		}
	})
	return n, ok && err == nil
}
