package netproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// A Gate connects a process's own network with the outside: it serves listeners inside
// that network, one for each of its Endpoints.
type Gate struct {
	*Endpoints
	proxy *Proxy
	serve []func(net.Listener) // in the order of Addresses
}

// Serve serves listeners, in the order of Addresses, and closes them at its end. It
// can be called again, for another process of the same kind.
func (g *Gate) Serve(listeners []net.Listener) {
	for i, l := range listeners {
		if !g.proxy.run(func() { g.serve[i](inside{l}) }) {
			l.Close()
		}
	}
}

// inside is a listener in another network, whose address has no meaning here.
type inside struct{ net.Listener }

func (inside) Addr() net.Addr { return noAddr{} }

type noAddr struct{}

func (noAddr) Network() string { return "tcp" }
func (noAddr) String() string  { return "in a network of its own" }

// Close closes everything that was served, and waits for it.
func (g *Gate) Close() { g.proxy.Close() }

// NewGate returns a gate to the proxies that the client has prepared. own reports
// whether this program listens at an address; nil means nowhere. A gate to this
// program is refused: the process could control the server through it.
func NewGate(e *Endpoints, own func(netip.AddrPort) bool, log *slog.Logger) (*Gate, error) {
	for _, address := range e.Addresses {
		if own != nil && own(address) {
			return nil, fmt.Errorf("tether itself listens at the proxy address %s; name the proxy that the command is to use", address)
		}
	}
	p := New(Config{Log: log})
	g := &Gate{Endpoints: e, proxy: p}
	greeting := e.greeting()
	for _, address := range e.Addresses {
		g.serve = append(g.serve, func(l net.Listener) { p.bridge(l, address, greeting) })
	}
	return g, nil
}

// Placeholder addresses of the proxies in an environment. The addresses of the
// listeners replace them.
const httpPlaceholder, socksPlaceholder = "127.0.0.1:1", "127.0.0.1:2"

// Gate returns the environment of a process that can only use this proxy, and the
// gate. Closing either closes both.
func (p *Proxy) Gate(env []string, socks, localBinding bool) ([]string, *Gate, error) {
	socksAddress := ""
	if socks {
		socksAddress = socksPlaceholder
	}
	rest, e, err := FindEndpoints(Environment(env, httpPlaceholder, socksAddress, localBinding))
	if err != nil {
		return nil, nil, err
	}
	g := &Gate{Endpoints: e, proxy: p}
	for _, address := range e.Addresses {
		serve := p.ServeHTTP
		if address.String() == socksPlaceholder {
			serve = p.ServeSocks
		}
		g.serve = append(g.serve, serve)
	}
	return rest, g, nil
}

// Listen listens on the host's loopback, as often as Open needs it.
func Listen(socks bool) (listeners []net.Listener, err error) {
	for range Listeners(socks) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			for _, one := range listeners {
				one.Close()
			}
			return nil, fmt.Errorf("listen for a process: %w", err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// Listeners is how many listeners Open needs.
func Listeners(socks bool) int {
	if socks {
		return 2
	}
	return 1
}

// Open serves HTTP on the first listener and SOCKS5 on the second, if there is one, and returns the environment of a
// process that uses them. The listeners belong to the proxy.
func (p *Proxy) Open(env []string, listeners []net.Listener, localBinding bool) []string {
	addresses := [2]string{}
	for i, serve := range []func(net.Listener){p.ServeHTTP, p.ServeSocks}[:len(listeners)] {
		l := listeners[i]
		addresses[i] = l.Addr().String()
		if !p.run(func() { serve(l) }) {
			l.Close()
		}
	}
	return Environment(env, addresses[0], addresses[1], localBinding)
}

// greetingMagic begins a greeting, which tells a prepared proxy to which
// process a connection belongs.
const greetingMagic = "\x00CDXPXY1"

// maxToken bounds a token in a greeting.
const maxToken = 128

// greeting returns the bytes that each connection to a prepared proxy begins
// with; nil: none.
func (e *Endpoints) greeting() []byte {
	if e.token == "" || len(e.token) > maxToken {
		return nil
	}
	b := binary.BigEndian.AppendUint16([]byte(greetingMagic), uint16(len(e.token)))
	return append(b, e.token...)
}

// bridge connects each connection to l with the proxy at address.
func (p *Proxy) bridge(l net.Listener, address netip.AddrPort, greeting []byte) {
	l, err := p.listen(l)
	if err != nil {
		return
	}
	p.acceptAll(l, func(c net.Conn) {
		there, err := p.connect(p.ctx, []netip.AddrPort{address})
		if err == nil && greeting != nil {
			if _, err = there.Write(greeting); err != nil {
				there.Close()
			}
		}
		if err != nil {
			p.config.Log.Warn("a prepared proxy cannot be reached", "address", address, "err", err)
			c.Close()
			return
		}
		relay(c, there)
	})
}

// acceptAll serves the connections to l, until l or the proxy is closed.
func (p *Proxy) acceptAll(l net.Listener, serve func(net.Conn)) {
	defer l.Close()
	for {
		c, err := l.Accept()
		if err == nil {
			if !p.run(func() { serve(c) }) {
				c.Close()
			}
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		p.config.Log.Warn("accept a connection of the process", "err", err)
		select {
		case <-time.After(acceptPause):
		case <-p.ctx.Done():
			return
		}
	}
}
