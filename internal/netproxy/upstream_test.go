package netproxy

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/host"
	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/tethertest/noproxy"
)

func TestUpstream(t *testing.T) {
	plain := newRecorder(t, recorderAnswer)
	tunnels := newRecorder(t, "HTTP/1.1 200 Connected\r\nX: y\r\n\r\nwelcome")
	host := newRecorder(t, recorderAnswer)
	h := newHTTPTest(t, names(), Config{Resolve: loopback, Upstream: []string{
		"HTTP_PROXY=http://us:pw@127.0.0.1:" + plain.port, "http_proxy=http://127.0.0.1:1",
		"https_proxy=tu:nn@127.0.0.1:" + tunnels.port, "NO_PROXY=other.example, .direct.ok.example",
	}})
	get := func(name string) string {
		return h.exchange("GET http://" + name + ":" + host.port + "/a|b?c HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic mine\r\nConnection: close\r\n\r\n")
	}
	for _, name := range []string{"x.ok.example", "x.direct.ok.example"} {
		if got := get(name); !strings.HasSuffix(got, "hi") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := get("bad.example"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("bad.example: %s", got)
	}
	c := h.dial()
	io.WriteString(c, "CONNECT x.ok.example:443 HTTP/1.1\r\nHost: x\r\n\r\nhello")
	in := bufio.NewReader(c)
	if a, err := http.ReadResponse(in, &http.Request{Method: "CONNECT"}); err != nil || a.StatusCode != 200 {
		t.Fatalf("CONNECT: %v, %v", a, err)
	}
	welcome := make([]byte, len("welcome"))
	if _, err := io.ReadFull(in, welcome); err != nil || string(welcome) != "welcome" {
		t.Errorf("through the tunnel came %q, %v", welcome, err)
	}
	c.CloseWrite()
	io.Copy(io.Discard, in)

	h.proxy.Close()
	want := "GET http://x.ok.example:" + host.port + "/a|b?c HTTP/1.1\r\nHost: x.ok.example:" + host.port + "\r\n" +
		"Connection: close\r\nProxy-Authorization: Basic dXM6cHc=\r\n\r\n"
	if got := plain.seen(); len(got) != 1 || !sameHeader(got[0], want) {
		t.Errorf("the plain proxy got %q, want %q", got, want)
	}
	want = "CONNECT x.ok.example:443 HTTP/1.1\r\nHost: x.ok.example:443\r\nProxy-Authorization: Basic dHU6bm4=\r\n\r\nhello"
	if got := tunnels.seen(); len(got) != 1 || got[0] != want {
		t.Errorf("the tunnel proxy got %q, want %q", got, want)
	}
	if got := host.seen(); len(got) != 1 || !strings.HasPrefix(got[0], "GET /a|b?c HTTP/1.1\r\n") || strings.Contains(got[0], "Proxy") {
		t.Errorf("the host got %q", got)
	}
}

// sameHeader compares headers in any order.
func sameHeader(a, b string) bool {
	count := func(s string) map[string]int {
		m := map[string]int{}
		for l := range strings.SplitSeq(s, "\r\n") {
			m[l]++
		}
		return m
	}
	x, y := count(a), count(b)
	for l, n := range x {
		if y[l] != n {
			return false
		}
	}
	return len(x) == len(y)
}

// An upstream proxy makes neither private addresses nor names that may lead to one
// reachable.
func TestUpstreamAddresses(t *testing.T) {
	up := newRecorder(t, recorderAnswer)
	s := names()
	s.AllowLocalBinding = false
	for name, cfg := range map[string]Config{"private": {Resolve: loopback}, "unknown": {}} {
		t.Run(name, func(t *testing.T) {
			cfg.Upstream = []string{"ALL_PROXY=http://127.0.0.1:" + up.port}
			h := newHTTPTest(t, s, cfg)
			for _, request := range []string{"GET http://x.ok.example/", "CONNECT x.ok.example:443", "GET http://10.0.0.1/"} {
				got := h.exchange(request + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				if !strings.HasPrefix(got, "HTTP/1.1 403 ") {
					t.Errorf("%s: %s", request, got)
				}
			}
		})
	}
	if got := up.seen(); len(got) != 0 {
		t.Errorf("the upstream proxy got %q", got)
	}
}

// If private addresses may be reached, special addresses are still refused.
func TestUpstreamDoesNotOpenSpecialAddresses(t *testing.T) {
	up := newRecorder(t, recorderAnswer)
	own := netip.MustParseAddr("127.0.0.7")
	addresses := map[string]string{"meta.ok.example": "169.254.169.254", "denied.ok.example": "192.0.2.9", "server.ok.example": own.String()}
	s := names()
	s.Domains["192.0.2.9"] = netpolicy.Deny
	h := newHTTPTest(t, s, Config{
		Upstream: []string{"ALL_PROXY=http://127.0.0.1:" + up.port},
		Own:      func(a netip.AddrPort) bool { return a.Addr() == own },
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			a, err := netip.ParseAddr(addresses[host])
			return []netip.Addr{a}, err
		},
	})
	for name := range addresses {
		if got := h.exchange("CONNECT " + name + ":80 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := up.seen(); len(got) != 0 {
		t.Errorf("the upstream proxy got %q", got)
	}
	got := h.exchange("GET http://unknown.ok.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if !strings.HasSuffix(got, "hi") {
		t.Errorf("a name that only the upstream proxy may know: %s", got)
	}
}

// One refused address among many is enough for a refusal: an upstream proxy that
// resolves the name again may use that one.
func TestOneRefusedAddressIsEnough(t *testing.T) {
	up := newRecorder(t, recorderAnswer)
	h := newHTTPTest(t, names(), Config{
		Upstream: []string{"ALL_PROXY=http://127.0.0.1:" + up.port},
		Resolve: func(context.Context, string) (all []netip.Addr, _ error) {
			for i := range 2 * maxAddresses {
				all = append(all, netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}))
			}
			return append(all, netip.MustParseAddr("169.254.169.254")), nil
		},
	})
	if got := h.exchange("GET http://x.ok.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("answer %s", got)
	}
}

func TestUpstreamRefuses(t *testing.T) {
	for name, answer := range map[string]string{
		"refusal": "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
		"garbage": "SSH-2.0-x\r\n\r\n",
		"endless": strings.Repeat("x", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			up := newRecorder(t, answer)
			h := newHTTPTest(t, names(), Config{Upstream: []string{"ALL_PROXY=http://127.0.0.1:" + up.port}})
			got := h.exchange("CONNECT x.ok.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 502 ") {
				t.Errorf("answer %q", got)
			}
			h.proxy.Close()
			up.stop()
		})
	}
}

func TestFindUpstream(t *testing.T) {
	const up = "http://proxy.example:3128"
	for _, c := range []struct {
		env      string
		protocol netpolicy.Protocol
		host     string
		want     string
	}{
		{"", netpolicy.HTTP, "a.example", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "a.example", up},
		{"HTTP_PROXY=" + up, netpolicy.Connect, "a.example", up},
		{"HTTPS_PROXY=" + up, netpolicy.HTTP, "a.example", ""},
		{"HTTPS_PROXY=" + up, netpolicy.Connect, "a.example", up},
		{"ALL_PROXY=" + up, netpolicy.HTTP, "a.example", up},
		{"all_proxy=" + up, netpolicy.Connect, "a.example", up},
		{"ALL_PROXY=" + up, netpolicy.SocksTCP, "a.example", ""},
		{"HTTP_PROXY=proxy.example:3128", netpolicy.HTTP, "a.example", up},
		{"HTTP_PROXY=socks5h://proxy.example:1080", netpolicy.HTTP, "a.example", "socks5://proxy.example:1080"},
		{"HTTP_PROXY=::::", netpolicy.HTTP, "a.example", ""},
		{"HTTP_PROXY=", netpolicy.HTTP, "a.example", ""},
		{"HTTP_PROXY= http_proxy=" + up, netpolicy.HTTP, "a.example", ""},
		{"HTTP_PROXY=ftp://x ALL_PROXY=" + up, netpolicy.HTTP, "a.example", up},
		{"HTTP_PROXY=" + up + " REQUEST_METHOD=GET", netpolicy.HTTP, "a.example", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "localhost", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "127.0.0.1", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "10.1.1.1", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "fd00::1", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "203.0.113.1", up},
	} {
		proxies := host.ProxiesOf(strings.Fields(c.env), slog.New(slog.DiscardHandler))
		got := upstreamFor(proxies, netpolicy.Query{Protocol: c.protocol, Host: c.host, Port: 80})
		if (got == nil) != (c.want == "") || got != nil && got.URL().String() != c.want {
			t.Errorf("%s, %s %s: %v, want %q", c.env, c.protocol, c.host, got, c.want)
		}
	}
}

func TestNoProxy(t *testing.T) {
	for _, c := range noproxy.Cases {
		proxies := host.ProxiesOf([]string{"HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=" + c.List}, slog.New(slog.DiscardHandler))
		for _, protocol := range []netpolicy.Protocol{netpolicy.HTTP, netpolicy.Connect} {
			q := netpolicy.Query{Protocol: protocol, Host: c.Host, Port: c.Port}
			if direct := upstreamFor(proxies, q) == nil; direct != c.Direct {
				t.Errorf("NO_PROXY=%q: %s to %s goes directly: %v", c.List, protocol, addressOf(q), direct)
			}
		}
	}
}

// A SOCKS5 proxy of the environment is used for requests and for tunnels. A request is not in absolute form, because
// the host reads it.
func TestUpstreamSOCKS(t *testing.T) {
	target := newRecorder(t, recorderAnswer)
	socks := newHTTPTest(t, names(), Config{Resolve: loopback})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socks.proxy.run(func() { socks.proxy.ServeSocks(l) })
	h := newHTTPTest(t, names(), Config{Resolve: loopback, Upstream: []string{"ALL_PROXY=socks5h://" + l.Addr().String()}})
	address := "x.ok.example:" + target.port
	got := h.exchange("GET http://" + address + "/a?b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if !strings.HasSuffix(got, "hi") {
		t.Errorf("a request: %s", got)
	}
	c := h.dial()
	io.WriteString(c, "CONNECT "+address+" HTTP/1.1\r\nHost: x\r\n\r\nGET /tunnel HTTP/1.1\r\n\r\n")
	answer := make([]byte, len("HTTP/1.1 200 OK\r\n\r\n"+recorderAnswer))
	if _, err := io.ReadFull(c, answer); err != nil || !strings.HasSuffix(string(answer), "hi") {
		t.Errorf("a tunnel: %s, %v", answer, err)
	}
	c.Close()
	if n := len(socks.decisions()); n != 2 {
		t.Errorf("the SOCKS5 proxy was asked %d times", n)
	}
	h.proxy.Close()
	socks.proxy.Close()
	target.stop()
	if seen := target.seen(); len(seen) != 2 || !strings.HasPrefix(seen[0], "GET /a?b HTTP/1.1\r\n") || !strings.HasPrefix(seen[1], "GET /tunnel HTTP/1.1\r\n") {
		t.Errorf("the host got %q", seen)
	}
}
