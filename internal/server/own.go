package server

import (
	"net"
	"net/netip"
	"sync/atomic"
)

// ownAddress is where a server listens.
type ownAddress struct {
	at atomic.Pointer[netip.AddrPort]
}

func (o *ownAddress) set(a net.Addr) {
	if tcp, ok := a.(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		o.at.Store(&at)
	}
}

// contains reports whether a connection to a comes to this server.
func (o *ownAddress) contains(a netip.AddrPort) bool {
	own := o.at.Load()
	switch {
	case own == nil || own.Port() != a.Port():
		return false
	case !own.Addr().IsUnspecified():
		return own.Addr().Unmap() == a.Addr().Unmap() || a.Addr().IsUnspecified()
	}
	return a.Addr().IsUnspecified() || a.Addr().IsLoopback() || isInterface(a.Addr())
}

// isInterface reports whether an address is one of this machine's. If that cannot be
// found out, it is.
func isInterface(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, one := range addrs {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().Unmap() == a.Unmap().WithZone("") {
			return true
		}
	}
	return false
}
