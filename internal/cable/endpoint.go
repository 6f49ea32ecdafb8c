package cable

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// dialTimeout limits the time to connect to the target, including TLS.
const dialTimeout = 10 * time.Second

// socketMode lets only this user connect, because a client of the cable reaches the
// target.
const socketMode = 0o600

// defaultListen is any free port.
const defaultListen = "ws://127.0.0.1:0"

// An endpoint is a target.
type endpoint struct {
	network, address string
	secure           bool
	host             string // for the Host header; empty: that of the client
	path             string // with the query; empty: that of the client
}

func parseTarget(target string) (endpoint, error) {
	if path, ok := strings.CutPrefix(target, "unix://"); ok && path != "" {
		return endpoint{network: "unix", address: path}, nil
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "ws" && u.Scheme != "wss" {
		return endpoint{}, fmt.Errorf("invalid target %q; expected ws://HOST:PORT, wss://HOST:PORT or unix://PATH", target)
	}
	e := endpoint{network: "tcp", address: u.Host, secure: u.Scheme == "wss", host: u.Host}
	if u.Port() == "" {
		port := "80"
		if e.secure {
			port = "443"
		}
		e.address = net.JoinHostPort(u.Hostname(), port)
	}
	if u.RequestURI() != "/" {
		e.path = u.RequestURI()
	}
	return e, nil
}

// dial connects to the target.
func (e endpoint) dial(ctx context.Context, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if !e.secure {
		return new(net.Dialer).DialContext(ctx, e.network, e.address)
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, e.network, e.address)
}

// listen opens the listener for clients and returns it with its URL.
func listen(ctx context.Context, where string) (net.Listener, string, error) {
	if where == "" {
		where = defaultListen
	}
	if path, ok := strings.CutPrefix(where, "unix://"); ok && path != "" {
		return listenUnix(ctx, path)
	}
	host, ok := strings.CutPrefix(where, "ws://")
	addr, err := netip.ParseAddrPort(host)
	if !ok || err != nil {
		return nil, "", fmt.Errorf("cannot listen on %q; expected ws://IP:PORT or unix://PATH", where)
	}
	if !addr.Addr().Unmap().IsLoopback() {
		return nil, "", fmt.Errorf("refusing to listen on %s: other machines can reach it; use 127.0.0.1 or unix://PATH", where)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr.String())
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s: %w", where, err)
	}
	return ln, "ws://" + ln.Addr().String(), nil
}

func listenUnix(ctx context.Context, path string) (net.Listener, string, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, "", fmt.Errorf("listen on unix://%s: %w", path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, "", errors.Join(fmt.Errorf("listen on unix://%s: %w", path, err), ln.Close())
	}
	return ln, "unix://" + path, nil
}
