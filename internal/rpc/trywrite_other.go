//go:build !unix

package rpc

import (
	"net"
	"syscall"
)

func plainSocket(net.Conn) syscall.RawConn { return nil }

func tryWrite(uintptr, []byte) (int, error) { return 0, nil }
