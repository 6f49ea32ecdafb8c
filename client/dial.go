package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/tetherexec/tether/internal/rpc"
)

// A dialer makes connections to one server. Its text names the server in errors.
type dialer interface {
	fmt.Stringer
	dial(context.Context) (rpc.Stream, error)
	local() bool // the server is on this machine
}

// maxRefusal is how much of the text is kept with which a server refuses us.
const maxRefusal = 1 << 10

// webSocket dials a server that listens.
type webSocket struct {
	address string // as given
	url     string // of the upgrade
	socket  string // path of a Unix socket, or empty
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
	d := &webSocket{address: address, url: address, opts: o}
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
		d.socket, d.url, d.near = path, "ws://localhost/", true
	default:
		return nil, fmt.Errorf("address of the server: %q is not ws://, wss:// or unix://", address)
	}
	return d, nil
}

func (d *webSocket) dial(ctx context.Context) (rpc.Stream, error) {
	var refusal string
	var answer *answerConn
	dialer := ws.Dialer{
		TLSConfig: d.opts.TLS,
		NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if d.opts.Connect != nil {
				return d.opts.Connect(ctx)
			}
			if d.socket != "" {
				network, addr = "unix", d.socket
			}
			// Keep-alive finds dead peers while nobody pings: during the upgrade.
			conn, err := (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, network, addr)
			if err != nil || !strings.HasPrefix(d.url, "ws://") || d.socket != "" {
				return conn, err
			}
			answer = &answerConn{Conn: conn}
			return answer, nil
		},
		OnStatusError: func(_ int, _ []byte, r io.Reader) {
			refusal = refusalText(r)
		},
	}
	if d.opts.Token != "" {
		dialer.Header = ws.HandshakeHeaderHTTP{"Authorization": {"Bearer " + d.opts.Token}}
	}
	conn, buffered, _, err := dialer.Dial(ctx, d.url)
	if err != nil {
		if status, ok := errors.AsType[ws.StatusError](err); ok {
			return nil, &UpgradeError{d.address, int(status), refusal}
		}
		if answer != nil && answer.speaksTLS() {
			err = errSpeaksTLS
		}
		return nil, &DialError{d.address, err}
	}
	if conn == net.Conn(answer) {
		conn = answer.Conn
	}
	var early []byte
	if buffered != nil {
		early, _ = buffered.Peek(buffered.Buffered())
		early = append([]byte(nil), early...)
		ws.PutReader(buffered)
	}
	return unlimitedStream{rpc.NewWebSocketClient(conn, early)}, nil
}

// errSpeaksTLS means that a ws:// address leads to a port that expects TLS.
var errSpeaksTLS = errors.New("the port speaks TLS")

// An answerConn remembers the beginning of what the server says, which is nothing that
// a WebSocket begins with if the port is not for that.
type answerConn struct {
	net.Conn
	begin []byte // up to maxRefusal
}

func (c *answerConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.begin = append(c.begin, b[:min(n, maxRefusal-len(c.begin))]...)
	return n, err
}

// speaksTLS reports whether the server has told us that it expects TLS: by an alert of
// TLS, or as Go's and other HTTPS servers do, in words.
func (c *answerConn) speaksTLS() bool {
	text := string(c.begin)
	return strings.HasPrefix(text, "\x15\x03") || strings.HasPrefix(text, "HTTP/1.") &&
		(strings.Contains(text, "HTTP request to an HTTPS server") || strings.Contains(text, "HTTP request was sent to HTTPS port"))
}

// refusalText is what the server says about its refusal. Only a text of known length
// is waited for.
func refusalText(r io.Reader) string {
	response, err := http.ReadResponse(bufio.NewReader(r), nil)
	if err != nil || response.ContentLength <= 0 {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	return strings.TrimSpace(string(text))
}

// An unlimitedStream does not make its messages wait for room in memory, as those of a
// server do: a client receives what it has asked for.
type unlimitedStream struct{ rpc.Stream }
