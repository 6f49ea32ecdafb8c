package listen

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/certs"
)

// identity is a self-signed certificate, valid for a server and for a client.
type identity struct {
	certFile, keyFile string
	pair              tls.Certificate
	pool              *x509.CertPool
}

func newIdentity(t *testing.T, name string) identity {
	t.Helper()
	id := identity{pool: x509.NewCertPool()}
	id.certFile, id.keyFile = certs.New(t, name)
	var err error
	if id.pair, err = tls.LoadX509KeyPair(id.certFile, id.keyFile); err != nil {
		t.Fatal(err)
	}
	id.pool.AddCert(id.pair.Leaf)
	return id
}

func TestTLSErrors(t *testing.T) {
	a, b := newIdentity(t, "a"), newIdentity(t, "b")
	junk := secretFile(t, "junk")
	const noPair = "TLS needs a certificate and its private key"
	for _, tt := range []struct {
		name string
		conf TLSConfig
		want string // start of the error
	}{
		{"good", TLSConfig{a.certFile, a.keyFile, b.certFile}, ""},
		{"no key", TLSConfig{CertFile: a.certFile}, noPair},
		{"no certificate", TLSConfig{KeyFile: a.keyFile}, noPair},
		{"client CA alone", TLSConfig{ClientCAFile: a.certFile}, noPair},
		{"missing file", TLSConfig{CertFile: "/nonexistent", KeyFile: a.keyFile}, "read the certificate: open /nonexistent: no such file or directory"},
		{"other key", TLSConfig{CertFile: a.certFile, KeyFile: b.keyFile}, "the certificate " + a.certFile + " and the private key " + b.keyFile + " cannot be used: "},
		{"not PEM", TLSConfig{CertFile: junk, KeyFile: a.keyFile}, "the certificate " + junk + " and"},
		{"client CA not PEM", TLSConfig{a.certFile, a.keyFile, junk}, "the file " + junk + " for certificates of clients holds no PEM certificate"},
	} {
		l, err := Open(t.Context(), Config{URL: "wss://127.0.0.1:0", TLS: tt.conf})
		if err == nil {
			l.Close()
		}
		if got := errText(err); (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestUpgradeOverTLS(t *testing.T) {
	server, client, stranger := newIdentity(t, "server"), newIdentity(t, "client"), newIdentity(t, "stranger")
	s := startUpgrader(t, Config{URL: "wss://127.0.0.1:0", TLS: TLSConfig{server.certFile, server.keyFile, client.certFile}}, nil)
	if !strings.HasPrefix(s.l.URL, "wss://127.0.0.1:") {
		t.Errorf("URL %s", s.l.URL)
	}
	dial := func(conf *tls.Config) (string, error) {
		conf.RootCAs = server.pool
		conn, err := tls.Dial("tcp", s.l.Addr().String(), conf)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n" + upgradeHeaders + "\r\nearly")); err != nil {
			return "", err
		}
		return readHead(conn)
	}
	head, err := dial(&tls.Config{Certificates: []tls.Certificate{client.pair}})
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("got %q, %v", head, err)
	}
	got := <-s.accepted
	if _, ok := got.conn.(*tls.Conn); !ok {
		t.Errorf("accepted a %T", got.conn)
	}
	for name, conf := range map[string]*tls.Config{
		"no certificate":      {},
		"other certificate":   {Certificates: []tls.Certificate{stranger.pair}},
		"old protocol":        {Certificates: []tls.Certificate{client.pair}, MaxVersion: tls.VersionTLS11},
		"only another proto.": {Certificates: []tls.Certificate{client.pair}, NextProtos: []string{"h2"}},
	} {
		if head, err := dial(conf); err == nil {
			t.Errorf("%s: got %q", name, head)
		}
	}
}

// A client certificate authenticates like a token: such a client may read the counters under any name of
// the server.
func TestMetricsOverTLS(t *testing.T) {
	server, client := newIdentity(t, "server"), newIdentity(t, "client")
	for _, row := range []struct {
		ca     string // certificate authority of clients
		status int
	}{{client.certFile, http.StatusOK}, {"", http.StatusForbidden}} {
		config, err := TLSConfig{server.certFile, server.keyFile, row.ca}.load()
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewUnstartedServer(&upgrader{log: slog.New(slog.DiscardHandler), pages: []Page{Metrics(func(w io.Writer) { io.WriteString(w, "counters") })}})
		web.TLS = config.Config
		web.StartTLS()
		defer web.Close()
		asks := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: server.pool, Certificates: []tls.Certificate{client.pair}}}}
		defer asks.CloseIdleConnections()
		r, err := http.NewRequest(http.MethodGet, web.URL+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "build.example"
		answer, err := asks.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != row.status {
			t.Errorf("authority of clients %q: status %d", row.ca, answer.StatusCode)
		}
	}
}
