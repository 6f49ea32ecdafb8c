package listen

import (
	"net"
	"net/netip"
	"sync/atomic"
)

// An OwnAddress is where a server listens.
type OwnAddress struct {
	at atomic.Pointer[netip.AddrPort]
}

// Set says where the server listens.
func (o *OwnAddress) Set(a net.Addr) {
	if tcp, ok := a.(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		o.at.Store(&at)
	}
}

// Contains reports whether a connection to a comes to this server.
func (o *OwnAddress) Contains(a netip.AddrPort) bool {
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
