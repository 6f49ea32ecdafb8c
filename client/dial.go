package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/host"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/websocket"
)

// A dialer makes connections to one server. Its text names the server in errors.
type dialer interface {
	fmt.Stringer
	dial(context.Context) (rpc.Stream, error)
	local() bool // the server is on this machine
}

// webSocket dials a server that listens.
type webSocket struct {
	address string             // as given
	url     *url.URL           // of the upgrade
	host    string             // of the URL: an address, or a name in lower case and in ASCII
	socket  string             // path of a Unix socket, or empty
	near    bool               // the server is on this machine
	proxy   func() *host.Proxy // proxyFor the environment as it is at the first connection
	opts    Options
}

func (d *webSocket) String() string { return d.address }

func (d *webSocket) local() bool { return d.near }

// dialerOf parses an address.
func dialerOf(address string, o Options) (dialer, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	d := &webSocket{address: address, url: u, opts: o}
	switch u.Scheme {
	case "ws", "wss":
		if u.Host == "" {
			return nil, fmt.Errorf("address of the server: no host in %q", address)
		}
		d.host = strings.ToLower(u.Hostname())
		if !host.IsASCII(d.host) {
			if d.host, err = host.ToASCII(d.host); err != nil {
				return nil, fmt.Errorf("address of the server: the host in %q: %w", address, err)
			}
		}
		d.near = host.IsThisMachine(d.host)
	case "unix":
		path := strings.TrimPrefix(address, "unix://")
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("address of the server: %q is not unix:///PATH", address)
		}
		d.socket, d.url, d.near = path, &url.URL{Scheme: "ws", Host: "localhost", Path: "/"}, true
	default:
		return nil, fmt.Errorf("address of the server: %q is not ws://, wss:// or unix://", address)
	}
	d.proxy = sync.OnceValue(func() *host.Proxy { return d.proxyFor(os.Environ()) })
	return d, nil
}

func (d *webSocket) dial(ctx context.Context) (rpc.Stream, error) {
	conn, err := d.connect(ctx)
	if err != nil {
		return nil, &DialError{d.address, err}
	}
	header := http.Header{}
	if d.opts.Token != "" {
		header.Set("Authorization", "Bearer "+d.opts.Token)
	}
	early, err := websocket.Upgrade(ctx, conn, d.url, header)
	if err != nil {
		conn.Close()
		if refusal, ok := errors.AsType[*websocket.StatusError](err); ok {
			return nil, &UpgradeError{d.address, refusal.Status, refusal.Text}
		}
		if answer, ok := errors.AsType[*websocket.AnswerError](err); ok && d.url.Scheme == "ws" && speaksTLS(answer.Begin) {
			err = errSpeaksTLS
		}
		return nil, &DialError{d.address, err}
	}
	return unlimitedStream{rpc.NewWebSocketClient(conn, early)}, nil
}

// connect makes the connection below the WebSocket.
func (d *webSocket) connect(ctx context.Context) (net.Conn, error) {
	conn, err := d.connectPlain(ctx)
	if err != nil || d.url.Scheme != "wss" {
		return conn, err
	}
	config := &tls.Config{}
	if d.opts.TLS != nil {
		config = d.opts.TLS.Clone()
	}
	config.ServerName = cmp.Or(config.ServerName, d.host)
	return tls.Client(conn, config), nil // the handshake comes with the upgrade
}

// connectPlain makes the connection below TLS, if there is any: to the server, or to a proxy that leads to it.
func (d *webSocket) connectPlain(ctx context.Context) (net.Conn, error) {
	if d.opts.Connect != nil {
		return d.opts.Connect(ctx)
	}
	// TCP keep-alive finds a dead peer during the upgrade, before the connection sends pings.
	dial := (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	if d.socket != "" {
		return dial(ctx, "unix", d.socket)
	}
	address := d.target()
	proxy := d.proxy()
	if proxy == nil {
		return dial(ctx, "tcp", address)
	}
	conn, err := host.Dialer{Dial: dial}.Tunnel(ctx, proxy, address)
	if err != nil && ctx.Err() == nil {
		err = &proxyError{proxy.Address(), err}
	}
	return conn, err
}

// target is the host and port of the server.
func (d *webSocket) target() string {
	port := "80"
	if d.url.Scheme == "wss" {
		port = "443"
	}
	return net.JoinHostPort(d.host, cmp.Or(d.url.Port(), port))
}

// proxyFor returns the proxy that an environment names for the server, or nil. A server on this machine is never reached
// through a proxy, which would look for it on its own machine.
func (d *webSocket) proxyFor(env []string) *host.Proxy {
	if d.near {
		return nil
	}
	log := d.opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return host.ProxiesOf(env, log).For(d.url.Scheme, d.target())
}

// A proxyError is a proxy that cannot be reached, or does not lead to the server. It does not wrap its cause: a refusal by
// the proxy must not look like a refusal by the server.
type proxyError struct {
	proxy string // its host and port
	err   error
}

func (e *proxyError) Error() string {
	return "the proxy at " + e.proxy + ", which the environment names, does not lead there: " + connectionText(e.err)
}

// errSpeaksTLS means that a ws:// address leads to a port that expects TLS.
var errSpeaksTLS = errors.New("the port speaks TLS")

// speaksTLS reports whether an answer that begins like this comes from a server that expects TLS. Such a server sends an
// alert of TLS or, like Go's and other HTTPS servers, a text.
func speaksTLS(begin []byte) bool {
	text := string(begin)
	return strings.HasPrefix(text, "\x15\x03") || strings.HasPrefix(text, "HTTP/1.") &&
		(strings.Contains(text, "HTTP request to an HTTPS server") || strings.Contains(text, "HTTP request was sent to HTTPS port"))
}

// An unlimitedStream hides the methods of a stream by which a server makes large messages
// wait for memory. A client does not need them: it receives what it has asked for.
type unlimitedStream struct{ rpc.Stream }
