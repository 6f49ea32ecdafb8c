package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/tetherexec/tether/internal/listen"
)

const audience = "tether"

// A testIssuer is an OpenID Connect issuer on loopback.
type testIssuer struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	handle   func(w http.ResponseWriter, r *http.Request) bool // in place of the answer, if it returns true
	keys     []jose.JSONWebKey
	requests map[string]int // by path
}

const (
	pathDiscovery = "/realm/.well-known/openid-configuration"
	pathKeys      = "/keys"
)

func startIssuer(t testing.TB, start func(http.Handler) *httptest.Server) *testIssuer {
	t.Helper()
	i := &testIssuer{t: t, requests: map[string]int{}}
	i.Server = start(i)
	t.Cleanup(i.Close)
	return i
}

// issuerURL is the URL by which tokens name the issuer.
func (i *testIssuer) issuerURL() string { return i.URL + "/realm" }

func (i *testIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.requests[r.URL.Path]++
	handle, keys := i.handle, i.keys
	i.mu.Unlock()
	if handle != nil && handle(w, r) {
		return
	}
	switch r.URL.Path {
	case pathDiscovery:
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.issuerURL(), "jwks_uri": i.URL + pathKeys, "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}})
	case pathKeys:
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: keys})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// answer changes what the issuer answers; nil: what it should.
func (i *testIssuer) answer(handle func(w http.ResponseWriter, r *http.Request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handle = handle
}

// down makes the issuer answer nothing that can be used.
func (i *testIssuer) down() {
	i.answer(func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
}

// publish replaces the keys of the issuer.
func (i *testIssuer) publish(keys ...testKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, k := range keys {
		i.keys = append(i.keys, jose.JSONWebKey{Key: k.signer.Public(), KeyID: k.id, Use: "sig"})
	}
}

// fetches returns how often the keys were asked for.
func (i *testIssuer) fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return max(i.requests[pathDiscovery], i.requests[pathKeys])
}

// A testKey signs tokens.
type testKey struct {
	id     string
	signer crypto.Signer
	method jwt.SigningMethod
}

// rsaKey is made once: that takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newKey(t testing.TB, id string) testKey {
	return ellipticKey(t, id, elliptic.P256(), jwt.SigningMethodES256)
}

func ellipticKey(t testing.TB, id string, curve elliptic.Curve, method jwt.SigningMethod) testKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return testKey{id, key, method}
}

func edwardsKey(t testing.TB, id string) testKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return testKey{id, key, jwt.SigningMethodEdDSA}
}

// token returns a valid token with changed claims; a value nil removes the claim. The header gets what else is given.
func (i *testIssuer) token(k testKey, changes map[string]any, header ...map[string]any) string {
	i.t.Helper()
	claims := jwt.MapClaims{"iss": i.issuerURL(), "aud": audience, "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range changes {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	token := jwt.NewWithClaims(k.method, claims)
	if k.id != "" {
		token.Header["kid"] = k.id
	}
	for _, h := range header {
		maps.Copy(token.Header, h)
	}
	text, err := token.SignedString(k.signer)
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// A clock is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// verifier returns a Verifier for the issuer, whose keys age by the clock.
func (i *testIssuer) verifier(c Config) (*Verifier, *clock) {
	i.t.Helper()
	c.Issuer, c.Audience = i.issuerURL(), audience
	v, err := newVerifier(&c)
	if err != nil {
		i.t.Fatal(err)
	}
	at := &clock{now: time.Now()}
	v.keys.now = at.Now
	return v, at
}

// check returns the principal of a token, or the reason and the text of the refusal.
func check(t testing.TB, v *Verifier, token string) string {
	t.Helper()
	c, err := v.Verify(t.Context(), token, slog.New(slog.DiscardHandler))
	if err == nil {
		return c.Principal
	}
	refusal, ok := errors.AsType[*listen.Refusal](err)
	if !ok || c != (listen.Client{}) || refusal.Later != (refusal.Reason == listen.NoKeys) {
		t.Errorf("%+v, %#v", c, err)
	}
	return err.Error()
}
