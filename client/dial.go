package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

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
	address string   // as given
	url     *url.URL // of the upgrade
	socket  string   // path of a Unix socket, or empty
	near    bool
	opts    Options
}

func (d *webSocket) String() string { return d.address }

func (d *webSocket) local() bool { return d.near }

// dialerOf understands an address.
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
		ip, err := netip.ParseAddr(u.Hostname())
		d.near = err == nil && ip.IsLoopback() || u.Hostname() == "localhost"
	case "unix":
		path := strings.TrimPrefix(address, "unix://")
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("address of the server: %q is not unix:///PATH", address)
		}
		d.socket, d.url, d.near = path, &url.URL{Scheme: "ws", Host: "localhost", Path: "/"}, true
	default:
		return nil, fmt.Errorf("address of the server: %q is not ws://, wss:// or unix://", address)
	}
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
	config.ServerName = cmp.Or(config.ServerName, d.url.Hostname())
	return tls.Client(conn, config), nil // the handshake comes with the upgrade
}

func (d *webSocket) connectPlain(ctx context.Context) (net.Conn, error) {
	if d.opts.Connect != nil {
		return d.opts.Connect(ctx)
	}
	network, address := "unix", d.socket
	if d.socket == "" {
		port := "80"
		if d.url.Scheme == "wss" {
			port = "443"
		}
		network, address = "tcp", net.JoinHostPort(d.url.Hostname(), cmp.Or(d.url.Port(), port))
	}
	// Keep-alive finds dead peers while nobody pings: during the upgrade.
	return (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, network, address)
}

// errSpeaksTLS means that a ws:// address leads to a port that expects TLS.
var errSpeaksTLS = errors.New("the port speaks TLS")

// speaksTLS reports whether an answer that begins like this tells us that the server expects TLS: by an alert of
// TLS or, as Go's and other HTTPS servers do, in words.
func speaksTLS(begin []byte) bool {
	text := string(begin)
	return strings.HasPrefix(text, "\x15\x03") || strings.HasPrefix(text, "HTTP/1.") &&
		(strings.Contains(text, "HTTP request to an HTTPS server") || strings.Contains(text, "HTTP request was sent to HTTPS port"))
}

// An unlimitedStream does not make its messages wait for room in memory, as those of a
// server do: a client receives what it has asked for.
type unlimitedStream struct{ rpc.Stream }
