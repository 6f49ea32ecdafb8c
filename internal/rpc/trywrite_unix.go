//go:build unix

package rpc

import (
	"net"
	"syscall"
)

// plainSocket gives access to a socket that bytes are written to unchanged. It is
// nil for other connections, such as those of TLS.
func plainSocket(conn net.Conn) syscall.RawConn {
	switch conn := conn.(type) {
	case *net.TCPConn:
		raw, _ := conn.SyscallConn() // fails only on a closed connection
		return raw
	case *net.UnixConn:
		raw, _ := conn.SyscallConn()
		return raw
	}
	return nil
}

// tryWrite writes to a non-blocking descriptor. If its buffer is full it writes
// nothing, and that is no error.
func tryWrite(fd uintptr, b []byte) (int, error) {
	n, err := syscall.Write(int(fd), b)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return 0, nil
	}
	return n, err
}
