package client_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest/certs"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// A proxy accepts one connection, makes the tunnel, and is itself the server at its other end.
type proxy struct {
	t      *testing.T
	ln     net.Listener
	secure *tls.Config // nil: without TLS
	login  string      // Proxy-Authorization
	target string      // the requested end of the tunnel
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &proxy{t: t, ln: ln}
}

// serve plays the proxy and the server behind it. tunnel makes the tunnel.
func (p *proxy) serve(tunnel func(net.Conn)) (wait func()) {
	return scripted.Play(p.t, func() {
		conn, err := p.ln.Accept()
		if err != nil {
			panic(err)
		}
		p.t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(time.Minute))
		tunnel(conn)
		if p.secure != nil {
			conn = tls.Server(conn, p.secure)
		}
		peer, err := scripted.NewPeer(conn)
		if err != nil {
			panic(err)
		}
		peer.Welcome("S")
	})
}

// byConnect makes a tunnel as HTTP proxies do.
func (p *proxy) byConnect(conn net.Conn) {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		panic(err)
	}
	p.target, p.login = r.Method+" "+r.RequestURI, r.Header.Get("Proxy-Authorization")
	io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
}

// bySOCKS makes a tunnel as SOCKS5 proxies do, to a name.
func (p *proxy) bySOCKS(conn net.Conn) {
	read := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(conn, b); err != nil {
			panic(err)
		}
		return b
	}
	read(int(read(2)[1])) // the ways to log in
	conn.Write([]byte{5, 0})
	name := read(int(read(5)[4]))
	port := read(2)
	p.target = fmt.Sprintf("%s:%d", name, int(port[0])<<8|int(port[1]))
	conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
}

// noProxies removes the proxies of this machine from the environment.
func noProxies(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"} {
		t.Setenv(name, "") // so that it is restored
		os.Unsetenv(name)
	}
}

func TestThroughProxy(t *testing.T) {
	cert, key := certs.New(t, "server")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	trust := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"} // the name in the certificate
	for name, test := range map[string]struct {
		variable, scheme string
		server, target   string
		login            string
		socks            bool
	}{
		"ws by CONNECT":  {"HTTP_PROXY", "http://", "ws://build.invalid", "CONNECT build.invalid:80", "", false},
		"wss by CONNECT": {"HTTPS_PROXY", "http://us:pw@", "wss://build.invalid:7443", "CONNECT build.invalid:7443", "Basic dXM6cHc=", false},
		"wss, ALL_PROXY": {"all_proxy", "", "wss://build.invalid", "CONNECT build.invalid:443", "", false},
		"ws by SOCKS5":   {"ALL_PROXY", "socks5h://", "ws://build.invalid:7777", "build.invalid:7777", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			noProxies(t)
			p := newProxy(t)
			tunnel := p.byConnect
			if test.socks {
				tunnel = p.bySOCKS
			}
			if strings.HasPrefix(test.server, "wss") {
				p.secure = &tls.Config{Certificates: []tls.Certificate{pair}}
			}
			t.Setenv(test.variable, test.scheme+p.ln.Addr().String())
			wait := p.serve(tunnel)
			c, err := client.Dial(t.Context(), test.server, client.Options{TLS: trust})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			wait()
			if p.target != test.target || p.login != test.login {
				t.Errorf("the proxy was asked for %q with %q", p.target, p.login)
			}
		})
	}
}

// A server on this machine is reached without the proxy; a server elsewhere is not reached if the
// proxy is down.
func TestProxyIsDown(t *testing.T) {
	noProxies(t)
	p := newProxy(t)
	p.ln.Close()
	t.Setenv("ALL_PROXY", "http://"+p.ln.Addr().String())
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() { s.Accept().Welcome("S") })
	c, err := client.Dial(t.Context(), s.URL(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wait()
	_, err = client.Dial(t.Context(), "ws://build.invalid", client.Options{})
	want := "cannot connect to ws://build.invalid: the proxy at " + p.ln.Addr().String() + ", which the environment names, does not lead there: connection refused"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestProxyRefuses(t *testing.T) {
	noProxies(t)
	p := newProxy(t)
	t.Setenv("HTTP_PROXY", "http://"+p.ln.Addr().String())
	wait := scripted.Play(t, func() {
		conn, err := p.ln.Accept()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		http.ReadRequest(bufio.NewReader(conn))
		io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\n\r\n")
	})
	_, err := client.Dial(t.Context(), "ws://build.invalid", client.Options{})
	wait()
	want := "cannot connect to ws://build.invalid: the proxy at " + p.ln.Addr().String() + ", which the environment names, does not lead there: the proxy refuses the tunnel with status 403"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}
