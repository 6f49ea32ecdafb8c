package listen

import (
	"net"
	"net/netip"
)

// Accepts reports whether a connection to a would reach this listener.
func (l *Listener) Accepts(a netip.AddrPort) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return false
	}
	own := tcp.AddrPort()
	switch {
	case own.Port() != a.Port():
		return false
	case !own.Addr().IsUnspecified():
		return own.Addr().Unmap() == a.Addr().Unmap() || a.Addr().IsUnspecified()
	}
	return a.Addr().IsUnspecified() || a.Addr().IsLoopback() || isInterface(a.Addr())
}

// isInterface reports whether an address belongs to this machine. If that cannot be
// found out, it reports true.
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
