package netproxy

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"github.com/tetherexec/tether/internal/host"
	"github.com/tetherexec/tether/internal/netpolicy"
)

// upstreamFor returns the proxy of the environment for q, or nil. Tunnels use HTTP_PROXY if there is no HTTPS_PROXY.
// This machine and private addresses (not names that lead to them) are reached directly, and so are the hosts that
// SOCKS5 clients ask for.
func upstreamFor(proxies *host.Proxies, q netpolicy.Query) *host.Proxy {
	var up *host.Proxy
	switch q.Protocol {
	case netpolicy.Connect:
		up = proxies.HTTPS
		fallthrough
	case netpolicy.HTTP:
		for _, p := range []*host.Proxy{proxies.HTTP, proxies.All} {
			if up == nil {
				up = p
			}
		}
	}
	if up == nil || isLocal(q.Host) || proxies.Direct(addressOf(q)) {
		return nil
	}
	return up
}

func addressOf(q netpolicy.Query) string { return net.JoinHostPort(q.Host, strconv.Itoa(int(q.Port))) }

// isLocal reports whether a host is this machine, or a private address (not a name).
func isLocal(name string) bool {
	a, err := netip.ParseAddr(name)
	a = a.Unmap()
	return host.IsThisMachine(name) || err == nil && (a.IsPrivate() || a.IsLinkLocalUnicast())
}

// dialUpstream opens a connection to address by way of an upstream proxy.
func (p *Proxy) dialUpstream(ctx context.Context, up *host.Proxy, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	return host.Dialer{Dial: p.connectUpstream}.Tunnel(ctx, up, address)
}

// connectUpstream connects to an upstream proxy. The rules do not apply to its address: the administrator has set it
// in the environment.
func (p *Proxy) connectUpstream(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return p.track(c, nil)
}
