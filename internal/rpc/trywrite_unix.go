//go:build unix

package rpc

import (
	"net"
	"syscall"
)

// plainSocket gives access to a socket that is written to as it is. It is nil
// for other connections, such as those of TLS.
func plainSocket(conn net.Conn) syscall.RawConn {
	switch conn := conn.(type) {
	case *net.TCPConn:
		raw, _ := conn.SyscallConn() // fails only on a closed one
		return raw
	case *net.UnixConn:
		raw, _ := conn.SyscallConn()
		return raw
	}
	return nil
}

// tryWrite writes to a non-blocking descriptor. A full one takes nothing, which
// is no error.
func tryWrite(fd uintptr, b []byte) (int, error) {
	n, err := syscall.Write(int(fd), b)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return 0, nil
	}
	return n, err
}
