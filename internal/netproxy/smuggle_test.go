package netproxy

import (
	"bytes"
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// smuggled follows a request that may not end where it seems to.
const smuggled = "GET http://bad.example/smuggled HTTP/1.1\r\nHost: bad.example\r\nConnection: close\r\n\r\n"

// badRequests are requests that a careless proxy would pass on. HOST is an allowed
// host. status is the beginning of the first response's status. host lists the request
// lines that reach HOST; if the response may come before the end of the request, at
// most these.
var badRequests = []struct {
	name, send string
	status     string
	host       []string
}{
	{"another Host", "GET http://HOST/a HTTP/1.1\r\nHost: bad.example\r\nConnection: close\r\n\r\n", "200", []string{"GET /a"}},
	{"two Hosts", "GET http://HOST/a HTTP/1.1\r\nHost: HOST\r\nHost: bad.example\r\n\r\n", "400", nil},
	{"no Host", "GET http://HOST/a HTTP/1.1\r\n\r\n", "400", nil},
	{"odd Host", "GET http://HOST/a HTTP/1.1\r\nHost: a b\r\n\r\n", "400", nil},
	{"length and chunks", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, "200", []string{"POST /a"}},
	{"chunks and length", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 100\r\n\r\n0\r\n\r\n" + smuggled, "200", []string{"POST /a"}},
	{"two lengths", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", "400", nil},
	{"signed length", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nContent-Length: +4\r\n\r\nabcd", "400", nil},
	{"length list", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4, 4\r\n\r\nabcd", "400", nil},
	{"unknown coding", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501", nil},
	{"two codings", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "501", nil},
	{"coding with a blank", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400", nil},
	{"coding after a bare CR", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nA: b\rTransfer-Encoding: chunked\r\n\r\n", "400", nil},
	{"chunk size", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + smuggled, "", []string{"POST /a"}},
	{"chunk size overflow", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n", "", []string{"POST /a"}},
	{"chunk without end", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX" + smuggled, "", []string{"POST /a"}},
	{"folded header", "GET http://HOST/a HTTP/1.1\r\nHost: HOST\r\nA: b\r\n Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n", "200", []string{"GET /a"}},
	{"folded first", "GET http://HOST/a HTTP/1.1\r\n Host: HOST\r\n\r\n", "400", nil},
	{"NUL in a value", "GET http://HOST/a HTTP/1.1\r\nHost: HOST\r\nA: \x00\r\n\r\n", "400", nil},
	{"NUL in a name", "GET http://HOST/a HTTP/1.1\r\nHost: HOST\r\nA\x00: b\r\n\r\n", "400", nil},
	{"NUL in the target", "GET http://HOST/\x00 HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"blank in the target", "GET http://HOST/a b HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"tab in the target", "GET http://HOST/a\tb HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"newline in the target", "GET http://HOST/a%0d%0aGET%20/b HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "200", []string{"GET /a%0d%0aGET%20/b"}},
	{"newline in the host", "GET http://HOST%0d%0a/ HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"user information", "GET http://u:p@HOST/a HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"host as user", "GET http://HOST@bad.example/a HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"backslash", "GET http://bad.example\\@HOST/a HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"port 0", "GET http://127.0.0.1:0/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"port 65536", "GET http://127.0.0.1:65536/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"port -1", "GET http://127.0.0.1:-1/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"no host", "GET http:///a HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"only a dot", "GET http://./ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"odd numbers", "GET http://167772161/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "403", nil},
	{"zone", "GET http://[fe80::1%25lo]/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "40", nil},
	{"origin form", "GET /a HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"all of it", "OPTIONS * HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"https", "GET https://HOST/a HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"ftp", "GET ftp://HOST/a HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"opaque", "GET http:HOST/a HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400", nil},
	{"no port", "CONNECT 127.0.0.1 HTTP/1.1\r\nHost: HOST\r\n\r\n" + smuggled, "400", nil},
	{"tunnel port 0", "CONNECT 127.0.0.1:0 HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"tunnel port 65536", "CONNECT 127.0.0.1:65536 HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"tunnel port name", "CONNECT 127.0.0.1:http HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"tunnel user", "CONNECT u:p@HOST HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"tunnel path", "CONNECT /a HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"tunnel URL", "CONNECT http://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"tunnel bare v6", "CONNECT ::1:80 HTTP/1.1\r\nHost: HOST\r\n\r\n", "400", nil},
	{"tunnel body", "CONNECT HOST HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n\r\nhello", "400", nil},
	{"tunnel chunks", "CONNECT HOST HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", nil},
	{"refused tunnel", "CONNECT bad.example:443 HTTP/1.1\r\nHost: HOST\r\n\r\nGET http://HOST/a HTTP/1.1\r\nHost: HOST\r\n\r\n", "403", nil},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400", nil},
	{"HTTP/2 upgrade", "GET http://HOST/a HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n" + smuggled, "200", []string{"GET /a"}},
	{"HTTP/3.1", "GET http://HOST/a HTTP/3.1\r\nHost: HOST\r\n\r\n", "505", nil},
	{"HTTP/0.9", "GET http://HOST/a\r\n\r\n", "400", nil},
	{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400", nil},
	{"SOCKS", "\x05\x01\x00\r\n\r\n", "400", nil},
	{"huge header", "GET http://HOST/a HTTP/1.1\r\nHost: HOST\r\nA: " + strings.Repeat("a", 2*maxHeaderBytes) + "\r\n\r\n", "431", nil},
	{"many headers", "GET http://HOST/a HTTP/1.1\r\nHost: HOST\r\n" + strings.Repeat("A: b\r\n", maxHeaderBytes/3) + "\r\n", "431", nil},
	{"endless target", "GET http://HOST/" + strings.Repeat("a", 2*maxHeaderBytes) + " HTTP/1.1\r\nHost: HOST\r\n\r\n", "431", nil},
	{"a denied one behind an allowed one", "GET http://HOST/a HTTP/1.1\r\nHost: HOST\r\n\r\n" + smuggled, "200", []string{"GET /a"}},
	{"a body with a request", "POST http://HOST/a HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\n\r\nabc" + smuggled, "200", []string{"POST /a"}},
}

func TestBadRequests(t *testing.T) {
	for _, c := range badRequests {
		t.Run(c.name, func(t *testing.T) {
			resolved := false
			h := newHTTPTest(t, literals(), Config{Resolve: func(ctx context.Context, name string) ([]netip.Addr, error) {
				resolved = true
				return loopback(ctx, name)
			}})
			r := newRecorder(t, recorderAnswer)
			got := h.exchange(strings.ReplaceAll(c.send, "HOST", "127.0.0.1:"+r.port))
			if !strings.HasPrefix(got, "HTTP/1.1 "+c.status) && !strings.HasPrefix(got, "HTTP/1.0 "+c.status) {
				t.Errorf("answer %.300q, want %s", got, c.status)
			}
			h.proxy.Close()
			seen := strings.Join(r.seen(), "\n")
			if lines := requestLines(seen); !slices.Equal(lines, c.host) && (c.status != "" || lines != nil) {
				t.Errorf("the host got %q", seen)
			}
			for _, never := range []string{"bad.example", "smuggled", "\x00", "Transfer-Encoding: identity"} {
				if strings.Contains(seen, never) {
					t.Errorf("the host got %q in %q", never, seen)
				}
			}
			if resolved {
				t.Error("a name was resolved")
			}
		})
	}
}

var requestLine = regexp.MustCompile(`(?m)^[A-Za-z]+ \S+ HTTP/1\.[01]\r$`)

// requestLines returns the lines that a host would read as requests, without their
// version.
func requestLines(sent string) []string {
	var lines []string
	for _, l := range requestLine.FindAllString(sent, -1) {
		lines = append(lines, l[:strings.LastIndexByte(l, ' ')])
	}
	return lines
}

// FuzzHTTP sends bytes to the proxy. For any bytes the connection ends, and only the
// one allowed host is dialled.
func FuzzHTTP(f *testing.F) {
	for _, seed := range []string{
		"GET http://ok.example:$P/ HTTP/1.1\r\nHost: ok.example\r\n\r\n",
		"GET http://bad.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n",
		"POST http://ok.example:$P/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET http://bad.example/ HTTP/1.1\r\nHost: b\r\n\r\n",
		"POST http://ok.example:$P/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
		"CONNECT ok.example:$P HTTP/1.1\r\nHost: ok.example\r\n\r\nGET / HTTP/1.1\r\n\r\n",
		"CONNECT bad.example:80 HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\n\r\n\x00",
		"GET http://ok.example@bad.example:$P/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := newRecorder(t, recorderAnswer)
		h := newHTTPTest(t, netpolicy.Settings{AllowLocalBinding: true,
			Domains: map[string]netpolicy.Access{"ok.example": netpolicy.Allow}},
			Config{Resolve: func(ctx context.Context, name string) ([]netip.Addr, error) {
				if name != "ok.example" {
					t.Errorf("%q is resolved", name)
				}
				return loopback(ctx, name)
			}})
		c := h.dial()
		c.Write(bytes.ReplaceAll(sent, []byte("$P"), []byte(r.port)))
		c.CloseWrite()
		buf := make([]byte, 4096)
		for {
			if _, err := c.Read(buf); err != nil {
				break
			}
		}
		h.proxy.Close()
		for _, e := range h.decisions() {
			if e.Decision.Allowed != (e.Query.Host == "ok.example") {
				t.Errorf("decision %+v", e)
			}
		}
	})
}
