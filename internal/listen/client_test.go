package listen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The claim sub of a signed token is the principal. A sub that could not be one makes the token invalid.
func TestPrincipalOfSignedToken(t *testing.T) {
	t.Parallel()
	a, err := newAuthenticator(AuthConfig{Signed: &SignedTokens{SecretFile: secretFile(t, testSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	const refused = "refused"
	long := strings.Repeat("ü", maxPrincipal/2)
	for _, tt := range []struct{ sub, want string }{
		{``, ""}, // none
		{`"sub":null,`, ""}, {`"sub":"",`, ""}, {`"SUB":"alice",`, ""},
		{`"sub":"alice",`, "alice"}, {`"sub":"Alice \"A\" <a@example.com>",`, `Alice "A" <a@example.com>`}, {`"sub":"` + long + `",`, long},
		{`"sub":"x` + long + `",`, refused}, {`"sub":"a\u0000",`, refused}, {`"sub":"a\nb",`, refused}, {`"sub":"\u007f",`, refused}, {`"sub":"\u0085",`, refused},
		{`"sub":"\ud800",`, refused}, {`"sub":"` + "\xff" + `",`, refused},
		{`"sub":5,`, refused}, {`"sub":["alice"],`, refused}, {`"sub":{},`, refused},
	} {
		token := signParts(t, `{"alg":"HS256"}`, `{`+tt.sub+`"exp":99999999999}`)
		c, err := a.Check(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}})
		principal := c.Principal
		if err == nil && c.Expires.Unix() != 99999999999 {
			t.Errorf("%s: it expires %v", tt.sub, c.Expires)
		}
		if err != nil {
			if principal = refused; err != errInvalidJWT {
				t.Errorf("%s: %v", tt.sub, err)
			}
		}
		if principal != tt.want {
			t.Errorf("%s: principal %q, want %q", tt.sub, principal, tt.want)
		}
	}
	// An expired token has no principal.
	token := sign(t, jwt.SigningMethodHS256, []byte(testSecret), map[string]any{"sub": "alice", "exp": 1})
	if c, err := a.Check(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}); c != (Client{}) || err == nil {
		t.Errorf("expired: %+v, %v", c, err)
	}
}

// An authority issues certificates of clients.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	id := newIdentity(t, "authority")
	return &authority{key: id.pair.PrivateKey.(*ecdsa.PrivateKey), cert: id.pair.Leaf, file: id.certFile}
}

// issue returns a certificate with a new key.
func (a *authority) issue(t *testing.T, subject pkix.Name) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// The subject of a verified certificate is the principal, also with a new key. Signed tokens name their clients instead.
func TestPrincipalOfCertificate(t *testing.T) {
	t.Parallel()
	ca, server := newAuthority(t), newIdentity(t, "server")
	principal := func(s *testUpgrader, pair tls.Certificate, header string) string {
		t.Helper()
		conn, err := tls.Dial("tcp", s.l.Addr().String(), &tls.Config{RootCAs: server.pool, Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n" + upgradeHeaders + header + "\r\n")); err != nil {
			t.Fatal(err)
		}
		if head, err := readHead(conn); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
			t.Fatalf("got %q, %v", head, err)
		}
		return (<-s.accepted).client.Principal
	}
	serve := func(auth AuthConfig, clients string) *testUpgrader {
		return startUpgrader(t, Config{URL: "wss://127.0.0.1:0", TLS: TLSConfig{server.certFile, server.keyFile, clients}, Auth: auth}, nil)
	}
	s := serve(AuthConfig{}, ca.file)
	alice := pkix.Name{CommonName: "alice", Organization: []string{"build, test"}}
	const aliceIs = `cert:CN=alice,O=build\, test`
	for range 2 { // the second certificate has another key
		if got := principal(s, ca.issue(t, alice), ""); got != aliceIs {
			t.Errorf("principal %q", got)
		}
	}
	if got := principal(s, ca.issue(t, pkix.Name{CommonName: "alice"}), ""); got != "cert:CN=alice" {
		t.Errorf("without organization: %q", got)
	}
	// The principals of certificates without a usable subject differ, too.
	seen := map[string]string{}
	for _, row := range []struct {
		prefix  string
		subject pkix.Name
	}{
		{"cert:key-sha256:", pkix.Name{}}, {"cert:key-sha256:", pkix.Name{}},
		{"cert:subject-sha256:", pkix.Name{CommonName: strings.Repeat("x", maxPrincipal)}},
		{"cert:subject-sha256:", pkix.Name{CommonName: strings.Repeat("x", maxPrincipal+1)}},
		{"cert:subject-sha256:", pkix.Name{CommonName: "a\nb"}},
	} {
		got := principal(s, ca.issue(t, row.subject), "")
		if !strings.HasPrefix(got, row.prefix) || len(got) != len(row.prefix)+64 || seen[got] != "" {
			t.Errorf("%q: principal %q", row.subject, got)
		}
		seen[got] = row.prefix
	}

	pair := ca.issue(t, alice)
	capability := serve(AuthConfig{Token: &CapabilityToken{File: secretFile(t, "tok")}}, ca.file)
	if got := principal(capability, pair, "Authorization: Bearer tok\r\n"); got != aliceIs {
		t.Errorf("with a capability token: %q", got)
	}
	signed := serve(AuthConfig{Signed: &SignedTokens{SecretFile: secretFile(t, testSecret)}}, ca.file)
	for claims, want := range map[string]string{`"sub":"bob",`: "bob", ``: ""} {
		token := signParts(t, `{"alg":"HS256"}`, `{`+claims+`"exp":99999999999}`)
		if got := principal(signed, pair, "Authorization: Bearer "+token+"\r\n"); got != want {
			t.Errorf("with a signed token of %q: %q", want, got)
		}
	}
	if got := principal(serve(AuthConfig{}, ""), pair, ""); got != "" { // it is not even asked for
		t.Errorf("with a certificate that is not verified: %q", got)
	}
}

// A Client has the query of its URL, and no principal without authentication.
func TestClientHasTheQuery(t *testing.T) {
	t.Parallel()
	s := startUpgrader(t, Config{}, nil)
	for target, want := range map[string]string{"/": "", "/?": "", "/?host=build%2D1&label=a=b&&;x": "host=build%2D1&label=a=b&&;x", "http://x?host=a": "host=a"} {
		if resp, _ := s.ask(t, "GET "+target+" HTTP/1.1\r\n"+upgradeHeaders+"\r\n"); resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(target, resp.Status)
		}
		if got := (<-s.accepted).client; got.Query != want || got.Principal != "" || got.Peer == "" {
			t.Errorf("%s: %+v", target, got)
		}
	}
	if resp, _ := s.ask(t, "GET /host?host=a HTTP/1.1\r\n"+upgradeHeaders+"\r\n"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %s", resp.Status)
	}
}
