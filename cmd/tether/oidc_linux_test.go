package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

// An oidcIssuer signs the tokens of clients. Servers fetch its key.
type oidcIssuer struct {
	t   *testing.T
	url string
	key *ecdsa.PrivateKey
	dir string // of token files
}

func startIssuer(t *testing.T) *oidcIssuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &oidcIssuer{t: t, key: key, dir: t.TempDir()}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k"}}})
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"issuer": i.url, "jwks_uri": i.url + "/keys"})
	}))
	t.Cleanup(web.Close)
	i.url = web.URL
	return i
}

// token returns the name of a file with a token.
func (i *oidcIssuer) token(org, scope string) string {
	i.t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": i.url, "aud": "tether", "sub": "alice", "exp": time.Now().Add(time.Hour).Unix(), "org": org, "roles": []string{scope},
	})
	token.Header["kid"] = "k"
	text, err := token.SignedString(i.key)
	if err != nil {
		i.t.Fatal(err)
	}
	file := filepath.Join(i.dir, org+scope)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
	return file
}

// A server and a gateway accept tokens of an OpenID Connect issuer. For that the server becomes tether-fleet, also if a configuration file names the issuer.
func TestOIDC(t *testing.T) {
	t.Parallel()
	f, issuer := startFleet(t), startIssuer(t)
	flags := []string{"--oidc-issuer", issuer.url, "--oidc-audience", "tether", "--oidc-claim", "org=acme", "--oidc-scope-claim", "roles"}
	file := filepath.Join(f.work, "tether.toml")
	settings := "[serve]\noidc-issuer = \"" + issuer.url + "\"\noidc-audience = \"tether\"\noidc-claim = [\"org=acme\"]\noidc-scope-claim = \"roles\"\n"
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	f.startHost(t, "a")
	_, gateway := f.startGateway(t, flags...)
	f.await(t, "a reachable")
	for name, url := range map[string]string{
		"a server":  f.startPart(t, "serve", "--config-file", file).line(t),
		"a gateway": gateway,
	} {
		run := func(token string) end {
			t.Helper()
			return f.tether(nil, "run", "--url", url, "--token-file", token, "--", "sh", "-c", "tr '\\0' '\\n' </proc/$PPID/cmdline | head -n 1")
		}
		if got := run(issuer.token("acme", "")); got.code != exitOK || filepath.Base(strings.TrimSpace(got.stdout)) != withFleet.program {
			t.Errorf("%s: %+v", name, got)
		}
		if got := run(issuer.token("evil", "")); got.code != exitRefused || !strings.Contains(got.stderr, "the token has not the claim org that is asked for") {
			t.Errorf("%s, another org: %+v", name, got)
		}
		if got := run(issuer.token("acme", "tether:read")); got.code != exitRefused || !strings.Contains(got.stderr, "read-only") {
			t.Errorf("%s, a read-only token: %+v", name, got)
		}
	}
	if got := f.tether(nil, "serve", "--config-file", file, "--check-config"); got != (end{stdout: "the configuration is correct\n"}) {
		t.Errorf("%+v", got)
	}
	if got := f.tether(nil, "serve", "--oidc-issuer", "http://192.0.2.1", "--oidc-audience", "tether"); got.code != exitError || !strings.Contains(got.stderr, "begins with https://") {
		t.Errorf("an issuer without TLS: %+v", got)
	}
	if got := f.tether(nil, "serve", "--oidc-claim", "org", "--oidc-issuer", issuer.url, "--oidc-audience", "tether"); got.code != exitError || !strings.HasSuffix(got.stderr, "--oidc-claim: \"org\" is not NAME=VALUE\n") {
		t.Errorf("a claim without a value: %+v", got)
	}
}
