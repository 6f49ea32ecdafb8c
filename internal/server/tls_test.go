package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// identity is a self-signed certificate, good for a server and for a client.
type identity struct {
	certFile, keyFile string
	pair              tls.Certificate
	pool              *x509.CertPool
}

func newIdentity(t *testing.T, name string) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	dir := t.TempDir()
	id := identity{certFile: filepath.Join(dir, "cert.pem"), keyFile: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	for path, content := range map[string][]byte{id.certFile: certPEM, id.keyFile: keyPEM} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if id.pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	id.pool.AppendCertsFromPEM(certPEM)
	return id
}

func TestTLSErrors(t *testing.T) {
	a, b := newIdentity(t, "a"), newIdentity(t, "b")
	junk := secretFile(t, "junk")
	for _, tt := range []struct {
		name string
		conf TLSConfig
		want string // start of the error
	}{
		{"good", TLSConfig{a.certFile, a.keyFile, b.certFile}, ""},
		{"no key", TLSConfig{CertFile: a.certFile}, "`--tls-cert` requires `--tls-key`"},
		{"no certificate", TLSConfig{KeyFile: a.keyFile}, "`--tls-key` requires `--tls-cert`"},
		{"client CA alone", TLSConfig{ClientCAFile: a.certFile}, "`--tls-client-ca` requires `--tls-cert` and `--tls-key`"},
		{"missing file", TLSConfig{CertFile: "/nonexistent", KeyFile: a.keyFile}, "cannot read `--tls-cert` /nonexistent: no such file or directory"},
		{"other key", TLSConfig{CertFile: a.certFile, KeyFile: b.keyFile}, "`--tls-cert` " + a.certFile + " and `--tls-key` " + b.keyFile + " cannot be used: "},
		{"not PEM", TLSConfig{CertFile: junk, KeyFile: a.keyFile}, "`--tls-cert` " + junk + " and"},
		{"client CA not PEM", TLSConfig{a.certFile, a.keyFile, junk}, "`--tls-client-ca` " + junk + " holds no PEM certificate"},
	} {
		_, err := tt.conf.Load()
		if got := errText(err); (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestUpgradeOverTLS(t *testing.T) {
	server, client, stranger := newIdentity(t, "server"), newIdentity(t, "client"), newIdentity(t, "stranger")
	s := startSurface(t, Config{Listen: "wss://127.0.0.1:0", TLS: TLSConfig{server.certFile, server.keyFile, client.certFile}}, nil)
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
