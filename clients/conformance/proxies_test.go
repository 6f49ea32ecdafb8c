package conformance

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/noproxy"
	"github.com/tetherexec/tether/wire"
)

// proxyVariables name proxies in the environment.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"}

// noProxy asks which proxy the client would use.
func noProxy(s *stage) {
	s.connected(nil)
	ask := func(env map[string]string, scheme, host string, port int) string {
		s.t.Helper()
		return s.do("proxy", args{"env": env, "scheme": scheme, "host": host, "port": port}).Proxy
	}
	for _, c := range noproxy.Cases {
		for _, variable := range []string{"NO_PROXY", "no_proxy"} {
			env := map[string]string{"ALL_PROXY": "http://127.0.0.1:1", variable: c.List}
			if direct := ask(env, "wss", c.Host, int(c.Port)) == ""; direct != c.Direct {
				s.t.Errorf("%s=%q: %s:%d is reached directly: %v", variable, c.List, c.Host, c.Port, direct)
			}
		}
	}
	for _, c := range []struct {
		want, scheme, host string
		env                map[string]string
	}{
		{"a:80", "ws", "x.example", map[string]string{"HTTP_PROXY": "a", "HTTPS_PROXY": "b", "ALL_PROXY": "c"}},
		{"b:443", "wss", "x.example", map[string]string{"HTTP_PROXY": "a", "HTTPS_PROXY": "https://b", "ALL_PROXY": "c"}},
		{"c:1080", "wss", "x.example", map[string]string{"HTTP_PROXY": "a", "ALL_PROXY": "socks5h://us:pw@c"}},
		{"c:1080", "ws", "x.example", map[string]string{"all_proxy": "SOCKS5://c/"}},
		{"[2001:db8::1]:8080", "ws", "x.example", map[string]string{"http_proxy": "http://[2001:db8::1]:8080"}},
		{"", "ws", "x.example", map[string]string{"HTTP_PROXY": "", "http_proxy": "a"}},
		{"", "ws", "x.example", map[string]string{"HTTP_PROXY": "ftp://a"}},
		{"", "ws", "x.example", map[string]string{"HTTP_PROXY": "a", "REQUEST_METHOD": "GET"}},
		{"c:80", "ws", "x.example", map[string]string{"HTTP_PROXY": "a", "REQUEST_METHOD": "GET", "ALL_PROXY": "c"}},
		{"", "ws", "localhost", map[string]string{"ALL_PROXY": "c"}},
		{"", "ws", "x.localhost", map[string]string{"ALL_PROXY": "c"}},
		{"", "ws", "127.1.2.3", map[string]string{"ALL_PROXY": "c"}},
		{"", "ws", "::1", map[string]string{"ALL_PROXY": "c"}},
		{"", "ws", "0.0.0.0", map[string]string{"ALL_PROXY": "c"}},
		{"c:80", "ws", "2001:db8::7", map[string]string{"ALL_PROXY": "c"}},
	} {
		if got := ask(c.env, c.scheme, c.host, 80); got != c.want {
			s.t.Errorf("%s://%s with %v: proxy %q, want %q", c.scheme, c.host, c.env, got, c.want)
		}
	}
}

// A way is a kind of proxy, with the URL of a server and the end of the tunnel that the client has to ask for.
type way struct {
	variable, scheme string
	login            *url.Userinfo
	server, target   string
}

var ways = []way{
	{"HTTP_PROXY", "http", url.UserPassword("us er", "p@w:d"), "ws://build.invalid", "build.invalid:80"},
	{"https_proxy", "http", nil, "wss://build.invalid:7443", "build.invalid:7443"},
	{"ALL_PROXY", "https", url.UserPassword("us", "pw"), "wss://build.invalid", "build.invalid:443"},
	{"ALL_PROXY", "socks5", url.UserPassword("us er", "p@w:d"), "ws://build.invalid:81", "build.invalid:81"},
	{"HTTPS_PROXY", "socks5h", nil, "wss://build.invalid", "build.invalid:443"},
	{"ALL_PROXY", "socks5h", nil, "ws://[2001:db8::7]:82", "[2001:db8::7]:82"},
}

// throughProxies reaches the server only through proxies, also after the connection was lost.
func throughProxies(s *stage) {
	for _, w := range ways {
		p := s.newProxy(w)
		links := s.cable.Links()
		s.connected(args{"url": w.server, "env": p.env()})
		s.do("start", with(shell("p", "cat"), "stdin", true))
		s.do("write", args{"process": "p", "text": "before\n"})
		s.do("read", args{"process": "p", "until": "before\n"})
		s.cable.Sever()
		s.do("write", args{"process": "p", "text": "after\n"})
		s.do("closeStdin", args{"process": "p"})
		r, _ := s.readAll("p")
		s.wants(r, wire.StreamStdout, []byte("before\nafter\n"))
		s.do("close", nil)
		s.through(links + 2)
		p.wants(w.target)
	}
	s.connected(nil) // that the end of the scene closes
}

// refusingProxies do not let the client through: the error names the proxy.
func refusingProxies(s *stage) {
	s.connected(nil)
	for _, w := range []way{ways[0], ways[3]} {
		p := s.newProxy(w)
		p.login = url.UserPassword("another", "one")
		got := s.answer("connect", s.begin("connect", args{"url": w.server, "env": p.env()}))
		if want := "the proxy at " + p.ln.Addr().String() + ", which the environment names, does not lead there"; !strings.Contains(got.Message, want) {
			s.t.Errorf("%s: %q, %q; want %q", w.scheme, got.Error, got.Message, want)
		}
	}
}

// A proxy makes tunnels that all lead to the cable of a stage.
type proxy struct {
	way
	t       *testing.T
	ln      net.Listener
	secure  *tls.Config
	to      string
	forURL  *url.Userinfo
	serving sync.WaitGroup

	mu    sync.Mutex
	asked []string
	open  []net.Conn
}

// newProxy starts a proxy that ends with the scene.
func (s *stage) newProxy(w way) *proxy {
	s.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	p := &proxy{way: w, t: s.t, ln: ln, secure: s.secure, to: strings.TrimPrefix(s.cable.URL(), "ws://"), forURL: w.login}
	p.serving.Go(func() { // ends with the listener
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.serve(conn) }) // ends with the connection
		}
	})
	s.t.Cleanup(func() {
		ln.Close()
		p.mu.Lock()
		for _, conn := range p.open {
			conn.Close()
		}
		p.mu.Unlock()
		p.serving.Wait()
	})
	return p
}

// env is an environment that names the proxy.
func (p *proxy) env() map[string]string {
	u := url.URL{Scheme: p.scheme, User: p.forURL, Host: p.ln.Addr().String()}
	return map[string]string{p.variable: u.String()}
}

// wants checks what the clients of the proxy have asked for.
func (p *proxy) wants(target string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) < 2 {
		p.t.Errorf("%s: %d tunnels", p.scheme, len(p.asked))
	}
	for _, asked := range p.asked {
		if asked != target {
			p.t.Errorf("%s: the client asked for %s, want %s", p.scheme, asked, target)
		}
	}
}

// keep notes a connection, which ends with the scene at the latest.
func (p *proxy) keep(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, conn)
}

func (p *proxy) serve(conn net.Conn) {
	defer conn.Close()
	p.keep(conn)
	if p.scheme == "https" {
		conn = tls.Server(conn, p.secure)
	}
	make := p.byConnect
	if strings.HasPrefix(p.scheme, "socks5") {
		make = p.bySOCKS
	}
	target, err := make(conn)
	if err != nil {
		return // the client says what it makes of that
	}
	p.mu.Lock()
	p.asked = append(p.asked, target)
	p.mu.Unlock()
	if strings.HasPrefix(p.server, "wss") {
		conn = tls.Server(conn, p.secure) // the server at the other end of the tunnel
	}
	on, err := net.Dial("tcp", p.to)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer on.Close()
	p.keep(on)
	var back sync.WaitGroup
	back.Go(func() { // ends with either connection
		io.Copy(conn, on)
		conn.Close()
	})
	io.Copy(on, conn)
	on.Close()
	back.Wait()
}

// byConnect makes a tunnel as HTTP proxies do.
func (p *proxy) byConnect(conn net.Conn) (target string, err error) {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return "", err
	}
	want := ""
	if p.login != nil {
		password, _ := p.login.Password()
		want = "Basic " + base64.StdEncoding.EncodeToString([]byte(p.login.Username()+":"+password))
	}
	if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != want {
		io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return "", errors.New("refused")
	}
	_, err = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
	return r.RequestURI, err
}

// bySOCKS makes a tunnel as SOCKS5 proxies do.
func (p *proxy) bySOCKS(conn net.Conn) (target string, err error) {
	read := func(n int) []byte {
		b := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(conn, b)
		}
		return b
	}
	read(int(read(2)[1])) // the ways to log in
	if p.login == nil {
		conn.Write([]byte{5, 0})
	} else {
		conn.Write([]byte{5, 2})
		user := read(int(read(2)[1]))
		password := read(int(read(1)[0]))
		want, _ := p.login.Password()
		if err != nil || string(user) != p.login.Username() || string(password) != want {
			conn.Write([]byte{1, 1})
			return "", errors.New("refused")
		}
		conn.Write([]byte{1, 0})
	}
	var name string
	switch read(4)[3] {
	case 1:
		name = net.IP(read(net.IPv4len)).String()
	case 3:
		name = string(read(int(read(1)[0])))
	case 4:
		name = net.IP(read(net.IPv6len)).String()
	default:
		return "", fmt.Errorf("unknown kind of address: %w", err)
	}
	port := read(2)
	conn.Write([]byte{5, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	return net.JoinHostPort(name, fmt.Sprint(int(port[0])<<8|int(port[1]))), err
}
