package netproxy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/netpolicy"
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

// An upstream proxy does not make private addresses reachable, nor names that may stand
// for one.
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

// Nor, where private addresses may be reached, those that may not even then.
func TestUpstreamAddressesThatStayRefused(t *testing.T) {
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

// One address among many that is refused is enough: who resolves the name again may take
// that one.
func TestOneAddressOfMany(t *testing.T) {
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
		"endless": strings.Repeat("x", maxConnectAnswer),
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
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "a.example", up},
		{"HTTP_PROXY=" + up, netpolicy.Connect, "a.example", up},
		{"HTTPS_PROXY=" + up, netpolicy.HTTP, "a.example", ""},
		{"HTTPS_PROXY=" + up, netpolicy.Connect, "a.example", up},
		{"ALL_PROXY=" + up, netpolicy.HTTP, "a.example", up},
		{"all_proxy=" + up, netpolicy.Connect, "a.example", up},
		{"ALL_PROXY=" + up, netpolicy.SocksTCP, "a.example", ""},
		{"HTTP_PROXY=proxy.example:3128", netpolicy.HTTP, "a.example", up},
		{"HTTP_PROXY=socks5h://proxy.example:1080", netpolicy.HTTP, "a.example", ""},
		{"HTTP_PROXY=::::", netpolicy.HTTP, "a.example", ""},
		{"HTTP_PROXY=", netpolicy.HTTP, "a.example", ""},
		{"HTTP_PROXY=socks5://x http_proxy=" + up, netpolicy.HTTP, "a.example", up},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "localhost", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "127.0.0.1", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "10.1.1.1", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "fd00::1", ""},
		{"HTTP_PROXY=" + up, netpolicy.HTTP, "203.0.113.1", up},
		{"NO_PROXY=* HTTP_PROXY=" + up, netpolicy.HTTP, "a.example", ""},
		{"NO_PROXY=example HTTP_PROXY=" + up, netpolicy.HTTP, "a.example", ""},
		{"NO_PROXY=*.example HTTP_PROXY=" + up, netpolicy.HTTP, "a.example", ""},
		{"NO_PROXY=b.a.example,xa.example HTTP_PROXY=" + up, netpolicy.HTTP, "a.example", up},
		{"NO_PROXY=A.EXAMPLE:80 HTTP_PROXY=" + up, netpolicy.HTTP, "a.example", ""},
		{"NO_PROXY=a.example:81 HTTP_PROXY=" + up, netpolicy.HTTP, "a.example", up},
		{"no_proxy=203.0.113.0/24 HTTP_PROXY=" + up, netpolicy.HTTP, "203.0.113.1", ""},
		{"no_proxy=203.0.113.2 HTTP_PROXY=" + up, netpolicy.HTTP, "203.0.113.1", up},
		{"no_proxy=[2001:db8::1]:80 HTTP_PROXY=" + up, netpolicy.HTTP, "2001:db8::1", ""},
	} {
		got := upstreamsOf(strings.Fields(c.env)).find(netpolicy.Query{Protocol: c.protocol, Host: c.host, Port: 80})
		if (got == nil) != (c.want == "") || got != nil && got.String() != c.want {
			t.Errorf("%s, %s %s: %v, want %q", c.env, c.protocol, c.host, got, c.want)
		}
	}
	if got := upstreamsOf(nil).find(netpolicy.Query{Protocol: netpolicy.HTTP, Host: "a.example", Port: 80}); got != nil {
		t.Errorf("no environment: %v", got)
	}
}
