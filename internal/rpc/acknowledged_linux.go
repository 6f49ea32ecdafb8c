package rpc

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// acknowledged counts the bytes that the peer's TCP has acknowledged, and reports whether
// other bytes still wait for an acknowledgement.
func acknowledged(conn net.Conn) (bytes uint64, waiting bool) {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = t.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, false
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), syscall.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			bytes, waiting = info.Bytes_acked, info.Unacked > 0 || info.Notsent_bytes > 0
		}
	})
	return bytes, waiting
}
