package netproxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/tetherexec/tether/internal/host"
	"github.com/tetherexec/tether/internal/netpolicy"
)

// BenchmarkDownload fetches 100 MiB from a loopback server: directly, as a plain request
// through the proxy, and through a tunnel.
func BenchmarkDownload(b *testing.B) {
	const size = 100 << 20
	block := make([]byte, 1<<20)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for range size / len(block) {
			w.Write(block)
		}
	}))
	defer host.Close()
	rules, err := netpolicy.Compile(netpolicy.Settings{Mode: netpolicy.Full,
		Domains: map[string]netpolicy.Access{"127.0.0.1": netpolicy.Allow}})
	if err != nil {
		b.Fatal(err)
	}
	p := New(Config{Rules: rules})
	defer p.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	p.run(func() { p.ServeHTTP(l) })
	proxy := &url.URL{Scheme: "http", Host: l.Addr().String()}

	for _, way := range []struct {
		name      string
		transport *http.Transport
	}{
		{"direct", &http.Transport{}},
		{"http", &http.Transport{Proxy: http.ProxyURL(proxy)}},
		{"connect", &http.Transport{DialContext: tunnelDialer(proxy.Host)}},
	} {
		b.Run(way.name, func(b *testing.B) {
			t := way.transport
			defer t.CloseIdleConnections()
			b.SetBytes(size)
			buf := make([]byte, 256<<10)
			for b.Loop() {
				r, err := (&http.Client{Transport: t}).Get(host.URL)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, buf)
				r.Body.Close()
				if n != size || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// tunnelDialer connects through CONNECT, where http.Transport would do so for https only.
func tunnelDialer(proxy string) func(context.Context, string, string) (net.Conn, error) {
	up := host.ProxiesOf([]string{"ALL_PROXY=" + proxy}, slog.New(slog.DiscardHandler)).All
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		return host.Dialer{}.Tunnel(ctx, up, address)
	}
}
