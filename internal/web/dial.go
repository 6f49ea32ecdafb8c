package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"

	xproxy "golang.org/x/net/proxy"
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
	proxy   *proxy // nil: none
	tls     bool
	address string // of the target; empty if the proxy takes every target
	name    string // of the target, for its certificate
}

func newRoute(t *target, p *proxy) route {
	r := route{proxy: p, tls: t.scheme == "https", address: t.address(), name: t.hostname()}
	if r.absolute() {
		r.address, r.name = "", ""
	}
	return r
}

// absolute tells whether requests name their target in full, for a proxy that
// reads them. All others get a tunnel.
func (r *route) absolute() bool {
	return r.proxy != nil && r.proxy.scheme != "socks5" && !r.tls
}

// dial opens a connection. It ends with ctx.
func (c *Client) dial(ctx context.Context, r route) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	socket, err := c.dialSocket(ctx, r)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { socket.Close() })
	stream, err := c.establish(ctx, r, socket)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		socket.Close()
		return nil, err
	}
	return &conn{socket: socket, stream: stream, route: r, reader: bufio.NewReaderSize(stream, readBuffer)}, nil
}

// dialSocket connects to the first stop of a route.
func (c *Client) dialSocket(ctx context.Context, r route) (net.Conn, error) {
	var d net.Dialer
	switch {
	case r.proxy == nil:
		return d.DialContext(ctx, "tcp", r.address)
	case r.proxy.scheme != "socks5":
		return d.DialContext(ctx, "tcp", r.proxy.address)
	}
	var login *xproxy.Auth
	if u := r.proxy.user; u != nil {
		password, _ := u.Password()
		login = &xproxy.Auth{User: u.Username(), Password: password}
	}
	socks, err := xproxy.SOCKS5("tcp", r.proxy.address, login, &d)
	if err != nil {
		return nil, err
	}
	return socks.(xproxy.ContextDialer).DialContext(ctx, "tcp", r.address)
}

// establish makes of a socket to the first stop a stream to the last.
func (c *Client) establish(ctx context.Context, r route, socket net.Conn) (net.Conn, error) {
	stream := socket
	var err error
	if r.proxy != nil && r.proxy.scheme == "https" {
		if stream, err = c.startTLS(ctx, stream, r.proxy.hostname); err != nil {
			return nil, err
		}
	}
	if !r.tls {
		return stream, nil
	}
	if r.proxy != nil && r.proxy.scheme != "socks5" {
		if stream, err = r.proxy.tunnel(stream, r.address); err != nil {
			return nil, err
		}
	}
	return c.startTLS(ctx, stream, r.name)
}

func (c *Client) startTLS(ctx context.Context, stream net.Conn, name string) (net.Conn, error) {
	secure := tls.Client(stream, &tls.Config{
		ServerName: name,
		RootCAs:    c.roots(),
		NextProtos: []string{"http/1.1"},
	})
	return secure, secure.HandshakeContext(ctx)
}

// tunnel asks the proxy for a connection to an address.
func (p *proxy) tunnel(stream net.Conn, address string) (net.Conn, error) {
	ask := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if p.auth != "" {
		ask += "Proxy-Authorization: " + p.auth + "\r\n"
	}
	if _, err := stream.Write([]byte(ask + "\r\n")); err != nil {
		return nil, err
	}
	reader := bufio.NewReaderSize(stream, readBuffer)
	head, err := readHead(reader)
	if err != nil {
		return nil, fmt.Errorf("read the proxy's answer: %w", err)
	}
	if head.status/100 != 2 {
		return nil, fmt.Errorf("proxy refuses the tunnel with status %d", head.status)
	}
	if reader.Buffered() > 0 { // the target speaks second: this is not from it
		return nil, fmt.Errorf("proxy sends %d bytes ahead of the tunnel", reader.Buffered())
	}
	return stream, nil
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
