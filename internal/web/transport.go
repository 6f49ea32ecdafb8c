package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/host"
)

const (
	// dialTimeout bounds the time to make a connection: TCP, proxy and TLS together. A request may
	// have a shorter timeout of its own.
	dialTimeout = 60 * time.Second

	// readBuffer is a connection's buffer. It holds several of the small chunks
	// in which servers send bodies of unknown length.
	readBuffer = 32 << 10

	maxIdle        = 64               // idle connections in all; the oldest is closed first
	maxIdlePerHost = 8                // idle connections to one host
	idleTimeout    = 90 * time.Second // after which an idle connection is closed

	// streamWindow is how many bytes of a body a server may send ahead of the reader with HTTP/2.
	// The socket of an HTTP/1.1 connection buffers about as many.
	streamWindow = 1 << 20

	// pingAfter is how long an HTTP/2 connection with requests may be silent before it is checked.
	// A dead connection would delay all requests to its host.
	pingAfter = 30 * time.Second
)

// newTransport returns the transport of a client. The route of a request is in
// its context.
func (c *Client) newTransport() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:                  func(r *http.Request) (*url.URL, error) { return routeOf(r.Context()).forwarder(), nil },
		DialContext:            c.dial,
		DialTLSContext:         c.dialTLS,
		Protocols:              &protocols,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow, SendPingTimeout: pingAfter},
		DisableCompression:     true, // bodies are passed on unchanged
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeadBytes,
		ReadBufferSize:         readBuffer,
	}
}

// A route is how a target is reached. The proxy depends on the target alone, so
// http.Transport may use connections again without knowing about it.
type route struct {
	proxy   *host.Proxy // nil: none
	tls     bool
	address string // of the target
	name    string // of the target, for its certificate

	request context.Context // of the request; dials for it end with this context
}

func (c *Client) routeTo(t *target) route {
	return route{proxy: c.proxies.For(t.scheme, t.address()), tls: t.scheme == "https", address: t.address(), name: t.hostname()}
}

// absolute reports whether the request has its target in absolute form, for a proxy that forwards
// it. Other requests use a tunnel, or no proxy.
func (r *route) absolute() bool { return r.proxy != nil && r.proxy.Forwards() && !r.tls }

// forwarder returns the URL of the proxy that forwards the request, or nil. Its scheme is always
// http and it has no login, because dial makes the connection.
func (r *route) forwarder() *url.URL {
	if !r.absolute() {
		return nil
	}
	return &url.URL{Scheme: "http", Host: r.proxy.Address()}
}

type routeKey struct{}

func routeOf(ctx context.Context) *route { return ctx.Value(routeKey{}).(*route) }

// dial connects to the target of a plain request or to the proxy that forwards it. http.Transport
// would go on dialling after the request; dial ends with it.
func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return c.forRequest(ctx, c.connect)
}

// dialTLS is dial for https.
func (c *Client) dialTLS(ctx context.Context, _, _ string) (net.Conn, error) {
	return c.forRequest(ctx, func(ctx context.Context, r *route) (net.Conn, error) {
		socket, err := c.connect(ctx, r)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(socket, &tls.Config{
			ServerName: r.name,
			RootCAs:    c.roots(),
			NextProtos: []string{"h2", "http/1.1"},
		})
		if err := secure.HandshakeContext(ctx); err != nil {
			socket.Close()
			return nil, err
		}
		return secure, nil
	})
}

// forRequest calls open with the route of a request and a context that ends with the request and
// after dialTimeout. Client.Close waits for it.
func (c *Client) forRequest(ctx context.Context, open func(context.Context, *route) (net.Conn, error)) (net.Conn, error) {
	if !c.sockets.begin() {
		return nil, ErrClosed
	}
	defer c.sockets.dials.Done()
	r := routeOf(ctx)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(r.request, cancel)()
	return open(ctx, r)
}

func (c *Client) connect(ctx context.Context, r *route) (net.Conn, error) {
	if r.proxy == nil {
		return c.sockets.dial(ctx, "tcp", r.address)
	}
	dialer := host.Dialer{Dial: c.sockets.dial, TLS: &tls.Config{RootCAs: c.roots()}}
	if r.absolute() {
		return dialer.Connect(ctx, r.proxy)
	}
	return dialer.Tunnel(ctx, r.proxy, r.address)
}

// sockets are the open connections of a client, so that Close can close them:
// http.Transport closes only those that are idle.
type sockets struct {
	dials sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[*socket]struct{}
}

// begin counts a dial in dials. It returns false after close.
func (s *sockets) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.dials.Add(1)
	}
	return !s.closed
}

func (s *sockets) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t := &socket{c, s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return nil, ErrClosed
	}
	if s.open == nil {
		s.open = map[*socket]struct{}{}
	}
	s.open[t] = struct{}{}
	return t, nil
}

// close closes all sockets and waits for dials under way, whose context has ended.
func (s *sockets) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Conn.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.dials.Wait()
}

// A socket is a connection to a target or a proxy.
type socket struct {
	net.Conn
	all *sockets
}

func (c *socket) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// loadRoots returns the certificates to trust: the system's, and those of the file that the
// environment names. It returns nil if only the system's are trusted.
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
		c.Log.Warn("certificate file has no certificates", "file", file)
	}
	return roots
}
