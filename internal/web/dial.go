package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/host"
)

const (
	// dialTimeout bounds a connection's way to its first request: TCP, proxy
	// and TLS together. A request may ask for less with its own timeout.
	dialTimeout = 60 * time.Second

	// readBuffer is a connection's buffer. Larger reads go past it.
	readBuffer = 8 << 10
)

// A route is how a target is reached: connections with equal routes can be
// used for each other's requests.
type route struct {
	proxy   *host.Proxy // nil: none
	tls     bool
	address string // of the target; empty if the proxy takes every target
	name    string // of the target, for its certificate
}

func (c *Client) routeTo(t *target) route {
	r := route{proxy: c.proxies.For(t.scheme, t.address()), tls: t.scheme == "https", address: t.address(), name: t.hostname()}
	if r.absolute() {
		r.address, r.name = "", ""
	}
	return r
}

// absolute tells whether requests name their target in full, for a proxy that
// reads them. All others get a tunnel.
func (r *route) absolute() bool {
	return r.proxy != nil && r.proxy.Forwards() && !r.tls
}

// dial opens a connection. It ends with ctx.
func (c *Client) dial(ctx context.Context, r route) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	socket, err := c.dialSocket(ctx, r)
	if err != nil {
		return nil, err
	}
	stream := socket
	if r.tls {
		if stream, err = c.startTLS(ctx, socket, r.name); err != nil {
			socket.Close()
			return nil, err
		}
	}
	return &conn{socket: socket, stream: stream, route: r, reader: bufio.NewReaderSize(stream, readBuffer)}, nil
}

// dialSocket connects to the target, or to a proxy that reads requests.
func (c *Client) dialSocket(ctx context.Context, r route) (net.Conn, error) {
	if r.proxy == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", r.address)
	}
	dialer := host.Dialer{TLS: &tls.Config{RootCAs: c.roots()}}
	if r.absolute() {
		return dialer.Connect(ctx, r.proxy)
	}
	return dialer.Tunnel(ctx, r.proxy, r.address)
}

func (c *Client) startTLS(ctx context.Context, stream net.Conn, name string) (net.Conn, error) {
	secure := tls.Client(stream, &tls.Config{
		ServerName: name,
		RootCAs:    c.roots(),
		NextProtos: []string{"http/1.1"},
	})
	return secure, secure.HandshakeContext(ctx)
}

// loadRoots returns the certificates to trust: the system's, and those of the
// file that the environment names. Nil means the system's.
func loadRoots(c Config, env environment) *x509.CertPool {
	if c.RootCAs != nil {
		return c.RootCAs
	}
	file := env.first("CODEX_CA_CERTIFICATE", "SSL_CERT_FILE")
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		c.Log.Warn("certificate file cannot be read and is ignored", "err", err)
		return nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		c.Log.Warn("certificate file holds no certificates", "file", file)
	}
	return roots
}
