//go:build !linux

package rpc

import "net"

func acknowledged(net.Conn) uint64 { return 0 }
