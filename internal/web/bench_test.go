package web

import (
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// BenchmarkSmallRequest makes requests with small bodies one after the other on a kept connection: plain HTTP, HTTP/1.1
// over TLS, and TLS with a server that offers HTTP/2.
func BenchmarkSmallRequest(b *testing.B) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	for name, start := range map[string]func(*httptest.Server){
		"http":  (*httptest.Server).Start,
		"https": (*httptest.Server).StartTLS,
		"h2":    func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		b.Run(name, func(b *testing.B) {
			s := httptest.NewUnstartedServer(handler)
			start(s)
			defer s.Close()
			roots := x509.NewCertPool()
			if s.TLS != nil {
				roots.AddCert(s.Certificate())
			}
			c := New(Config{RootCAs: roots})
			defer c.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := fetch(c, with(get(s.URL), "POST", "hello", "X-A: 1", "Content-Type: text/plain")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDownload streams a large body.
func BenchmarkDownload(b *testing.B) {
	const size = 64 << 20
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.Copy(w, io.LimitReader(struct{ io.Reader }{zeros{}}, size))
	}))
	defer s.Close()
	c := New(Config{})
	defer c.Close()
	b.SetBytes(size)
	for b.Loop() {
		r, err := c.Do(context.Background(), get(s.URL))
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Deltas(context.Background(), hasRoom, discard); err != nil {
			b.Fatal(err)
		}
	}
}

func discard(wire.HTTPBodyDelta) error { return nil }
