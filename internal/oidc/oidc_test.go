package oidc

import (
	"bytes"
	"context"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

const (
	invalid    = "invalid token"
	unknownKey = "the token is not signed with a known key of the issuer"
	noKeys     = "tokens cannot be checked now: the server has no keys of the issuer; try again later"
)

// Tokens may be signed with each asymmetric algorithm, and with no other.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	keys := []testKey{edwardsKey(t, "EdDSA")}
	for _, m := range []jwt.SigningMethod{jwt.SigningMethodRS256, jwt.SigningMethodRS384, jwt.SigningMethodRS512, jwt.SigningMethodPS256, jwt.SigningMethodPS384, jwt.SigningMethodPS512} {
		keys = append(keys, testKey{m.Alg(), rsaKey(), m})
	}
	keys = append(keys, ellipticKey(t, "ES256", elliptic.P256(), jwt.SigningMethodES256), ellipticKey(t, "ES384", elliptic.P384(), jwt.SigningMethodES384),
		ellipticKey(t, "ES512", elliptic.P521(), jwt.SigningMethodES512))
	i.publish(keys...)
	v, _ := i.verifier(Config{})
	for _, k := range keys {
		if got := check(t, v, i.token(k, nil)); got != "oidc:"+i.issuerURL()+"#alice" {
			t.Errorf("%s: %s", k.id, got)
		}
	}
	k := keys[1]
	k.id = "" // all keys are tried
	if got := check(t, v, i.token(k, nil)); got != "oidc:"+i.issuerURL()+"#alice" {
		t.Errorf("without a key id: %s", got)
	}

	claims := jwt.MapClaims{"iss": i.issuerURL(), "aud": audience, "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	public, err := x509.MarshalPKIXPublicKey(&rsaKey().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	inPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	for name, sign := range map[string]struct {
		method jwt.SigningMethod
		key    any
	}{
		"none":                           {jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType},
		"HS256 with the public key":      {jwt.SigningMethodHS256, public},
		"HS256 with it in PEM form":      {jwt.SigningMethodHS256, inPEM},
		"HS256 with its modulus":         {jwt.SigningMethodHS256, rsaKey().N.Bytes()},
		"HS512 with the public key":      {jwt.SigningMethodHS512, public},
		"HS256 with the empty key":       {jwt.SigningMethodHS256, []byte{}},
		"RS256 with the key id of ES256": {jwt.SigningMethodRS256, rsaKey()},
	} {
		token := jwt.NewWithClaims(sign.method, claims)
		token.Header["kid"] = "RS256"
		if strings.HasPrefix(name, "RS256") {
			token.Header["kid"] = "ES256"
		}
		text, err := token.SignedString(sign.key)
		if err != nil {
			t.Fatal(err)
		}
		if got := check(t, v, text); got != invalid {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// What a token says must be what is asked for.
func TestClaims(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	k := newKey(t, "k")
	i.publish(k)
	v, _ := i.verifier(Config{Claims: []Claim{{"org", "acme"}, {"groups", "dev"}, {"email_verified", "true"}, {"level", "3"}}, ClockSkew: 30})
	now := time.Now().Unix()
	type claims = map[string]any
	const lacks, lacks2 = "the token has not the claim ", " that is asked for"
	for name, tt := range map[string]struct {
		changes claims
		want    string // "": it is accepted
	}{
		"good":                     {nil, ""},
		"several audiences":        {claims{"aud": []string{"other", audience}}, ""},
		"a list with one group":    {claims{"groups": []string{"dev"}}, ""},
		"a group that is a text":   {claims{"groups": "dev"}, ""},
		"exp within the skew":      {claims{"exp": now - 20}, ""},
		"exp past":                 {claims{"exp": now - 60}, "expired websocket jwt"},
		"no exp":                   {claims{"exp": nil}, "invalid websocket jwt"},
		"nbf in the future":        {claims{"nbf": now + 90}, "websocket jwt is not valid yet"},
		"nbf within the skew":      {claims{"nbf": now + 20}, ""},
		"another issuer":           {claims{"iss": i.URL}, "websocket jwt issuer mismatch"},
		"no issuer":                {claims{"iss": nil}, "websocket jwt issuer mismatch"},
		"the issuer with a slash":  {claims{"iss": i.issuerURL() + "/"}, "websocket jwt issuer mismatch"},
		"another audience":         {claims{"aud": "tether2"}, "websocket jwt audience mismatch"},
		"no audience":              {claims{"aud": nil}, "websocket jwt audience mismatch"},
		"audience in upper case":   {claims{"aud": nil, "AUD": audience}, "websocket jwt audience mismatch"},
		"authorized party only":    {claims{"aud": "other", "azp": audience}, "websocket jwt audience mismatch"},
		"another org":              {claims{"org": "evil"}, lacks + "org" + lacks2},
		"no org":                   {claims{"org": nil}, lacks + "org" + lacks2},
		"org in upper case":        {claims{"org": nil, "ORG": "acme"}, lacks + "org" + lacks2},
		"an org with more text":    {claims{"org": "acme2"}, lacks + "org" + lacks2},
		"org in an object":         {claims{"org": claims{"acme": "acme"}}, lacks + "org" + lacks2},
		"other groups":             {claims{"groups": []string{"ops", "develop"}}, lacks + "groups" + lacks2},
		"no groups":                {claims{"groups": []string{}}, lacks + "groups" + lacks2},
		"groups in groups":         {claims{"groups": []any{[]string{"dev"}}}, lacks + "groups" + lacks2},
		"not verified":             {claims{"email_verified": false}, lacks + "email_verified" + lacks2},
		"verified as a text":       {claims{"email_verified": "true"}, ""},
		"another number":           {claims{"level": 31}, lacks + "level" + lacks2},
		"null":                     {claims{"level": []any{nil}}, lacks + "level" + lacks2},
		"no sub":                   {claims{"sub": nil}, "the token has no sub"},
		"an empty sub":             {claims{"sub": ""}, "the token has no sub"},
		"sub in upper case":        {claims{"sub": nil, "Sub": "root"}, "the token has no sub"},
		"a number as sub":          {claims{"sub": 5}, "invalid websocket jwt"},
		"a long sub":               {claims{"sub": strings.Repeat("x", 250)}, "the sub of the token is too long"},
		"a sub with control codes": {claims{"sub": "a\nb"}, "invalid websocket jwt"},
		"an unknown scope":         {claims{"scope": "tether:root"}, `the token has the unknown scope "tether:root"`},
	} {
		all := claims{"org": "acme", "groups": []string{"ops", "dev"}, "email_verified": true, "level": 3}
		for name, value := range tt.changes {
			all[name] = value
		}
		want := tt.want
		if want == "" {
			want = "oidc:" + i.issuerURL() + "#alice"
		}
		if got := check(t, v, i.token(k, all)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if i.fetches() != 1 {
		t.Errorf("the keys were fetched %d times", i.fetches())
	}
}

// Only the form and the kinds of tokens that clients are given are accepted.
func TestForms(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	k, other := newKey(t, "k"), newKey(t, "k")
	i.publish(k)
	v, _ := i.verifier(Config{})
	good := i.token(k, nil)
	part := strings.Split(good, ".")
	name := "oidc:" + i.issuerURL() + "#alice"
	typed := func(typ any) string { return i.token(k, nil, map[string]any{"typ": typ}) }
	for what, tt := range map[string]struct{ token, want string }{
		"good":                     {good, name},
		"an access token":          {typed("at+jwt"), name},
		"with the long type":       {typed("application/AT+JWT"), name},
		"a logout token":           {typed("logout+jwt"), invalid},
		"a security event":         {typed("secevent+jwt"), invalid},
		"a type that is a number":  {typed(5), invalid},
		"a type that is null":      {typed(nil), name},
		"an unknown extension":     {i.token(k, nil, map[string]any{"crit": []string{"x"}, "x": 1}), invalid},
		"its own key":              {i.token(other, nil, map[string]any{"jwk": jose.JSONWebKey{Key: other.signer.Public(), KeyID: "k"}}), invalid},
		"its own URL of keys":      {i.token(other, nil, map[string]any{"jku": i.URL + "/evil"}), invalid},
		"another signature":        {part[0] + "." + part[1] + "." + strings.Split(i.token(other, nil), ".")[2], invalid},
		"claims of another token":  {part[0] + "." + strings.Split(i.token(k, map[string]any{"sub": "root"}), ".")[1] + "." + part[2], invalid},
		"no signature":             {part[0] + "." + part[1] + ".", invalid},
		"a fourth part":            {good + ".", invalid},
		"encrypted":                {good + ".." + part[2], invalid},
		"the JSON form":            {`{"payload":"` + part[1] + `","protected":"` + part[0] + `","signature":"` + part[2] + `"}`, invalid},
		"the JSON form, with dots": {`{"payload":"` + part[1] + `","protected":"` + part[0] + `","signature":"` + part[2] + `","x":".."}`, invalid},
		"nothing":                  {"", invalid},
		"dots":                     {"..", invalid},
		"words":                    {"a.b.c", invalid},
	} {
		if got := check(t, v, tt.token); got != tt.want {
			t.Errorf("%s: %s", what, got)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.requests["/evil"] != 0 {
		t.Error("a token has made the server fetch keys from elsewhere")
	}
}

// The scopes are in the claim that is configured, and nowhere else.
func TestScopeClaim(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	k := newKey(t, "k")
	i.publish(k)
	usual, _ := i.verifier(Config{})
	roles, _ := i.verifier(Config{ScopeClaim: "roles"})
	for _, tt := range []struct {
		v               *Verifier
		claim           string
		value           any
		readOnly, admin bool
	}{
		{usual, "scope", "openid tether:read", true, false},
		{usual, "scope", "tether:admin", false, true},
		{usual, "roles", []string{"tether:admin"}, false, false},
		{roles, "roles", []string{"staff", "tether:admin"}, false, true},
		{roles, "roles", []string{"tether:read"}, true, false},
		{roles, "scope", "tether:admin", false, false},
	} {
		c, err := tt.v.Verify(t.Context(), i.token(k, map[string]any{tt.claim: tt.value}), slog.New(slog.DiscardHandler))
		if err != nil || c.ReadOnly != tt.readOnly || c.Admin != tt.admin {
			t.Errorf("%s %v: %+v, %v", tt.claim, tt.value, c, err)
		}
	}
}

// A server tells the clients with tokens of an issuer apart.
func TestServer(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	k := newKey(t, "k")
	i.publish(k)
	s := tethertest.StartServerOn(t, listen.Config{Auth: listen.AuthConfig{Other: &Config{Issuer: i.issuerURL(), Audience: audience}}}, server.Config{})
	alice := tethertest.DialToken(t, s.URL, i.token(k, nil))
	hello := alice.Handshake("")
	for _, c := range []struct {
		token string
		sees  bool
	}{
		{i.token(k, map[string]any{"sub": "bob"}), false},
		{i.token(k, map[string]any{"scope": "tether:read"}), true},
		{i.token(k, map[string]any{"sub": "root", "scope": "tether:admin"}), true},
	} {
		other := tethertest.DialToken(t, s.URL, c.token)
		other.Handshake("")
		var list wire.SessionListResult
		other.Must(wire.MethodSessionList, nil, &list)
		if sees := strings.Contains(string(other.Call(wire.MethodSessionList, nil).Raw), hello.Tether.PublicID); sees != c.sees {
			t.Errorf("%+v", list)
		}
	}
}

// A reload with the same settings keeps the keys, also while the issuer is down. Other settings count at once.
func TestReload(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	k := newKey(t, "k")
	i.publish(k)
	settings := func(claims ...Claim) listen.AuthConfig {
		return listen.AuthConfig{Other: &Config{Issuer: i.issuerURL(), Audience: audience, Claims: claims}}
	}
	l, err := listen.Open(t.Context(), listen.Config{Auth: settings(Claim{"org", "acme"})})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- srv.Serve(ctx, l) }() // waited for below
	defer func() {
		stop()
		if err := errors.Join(<-served, srv.Close(), l.Close()); err != nil {
			t.Error(err)
		}
	}()
	accepted := func(org string) bool {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http"+strings.TrimPrefix(l.URL, "ws")+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+i.token(k, map[string]any{"org": org}))
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}
	if !accepted("acme") || accepted("other") {
		t.Fatal("the claim is not checked")
	}
	i.down()
	if changed, err := l.ReloadTokens(settings(Claim{"org", "acme"})); changed || err != nil || !accepted("acme") || i.fetches() != 1 {
		t.Errorf("the same settings: changed %t, %v, %d fetches", changed, err, i.fetches())
	}
	i.answer(nil)
	if changed, err := l.ReloadTokens(settings(Claim{"org", "other"})); !changed || err != nil || accepted("acme") || !accepted("other") {
		t.Errorf("other settings: changed %t, %v", changed, err)
	}
	if changed, err := l.ReloadTokens(listen.AuthConfig{Other: &Config{Issuer: "http://192.0.2.1"}}); changed || err == nil || !accepted("other") {
		t.Errorf("settings that cannot be used: changed %t, %v", changed, err)
	}
	if changed, err := l.ReloadTokens(listen.AuthConfig{}); changed || err == nil || !accepted("other") {
		t.Errorf("no settings: changed %t, %v", changed, err)
	}
}

// A private issuer needs its certificate.
func TestCAFile(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewTLSServer)
	k := newKey(t, "k")
	i.publish(k)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	trusting, _ := i.verifier(Config{CAFile: file})
	if got := check(t, trusting, i.token(k, nil)); got != "oidc:"+i.issuerURL()+"#alice" {
		t.Error(got)
	}
	i.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	v, _ := i.verifier(Config{})
	var log bytes.Buffer
	if _, err := v.Verify(t.Context(), i.token(k, nil), slog.New(slog.NewTextHandler(&log, nil))); err == nil || err.Error() != noKeys || !strings.Contains(log.String(), "certificate signed by unknown authority") {
		t.Errorf("an issuer that is not trusted: %v, %s", err, log.String())
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		config Config
		want   string // a part of the error; "": none
	}{
		{Config{Issuer: "https://issuer.example", Audience: "a"}, ""},
		{Config{Issuer: "https://issuer.example/realms/x/", Audience: "a"}, ""},
		{Config{Issuer: "http://127.0.0.1:8080", Audience: "a"}, ""},
		{Config{Issuer: "http://localhost:8080", Audience: "a"}, ""},
		{Config{Issuer: "http://[::1]:8080", Audience: "a"}, ""},
		{Config{Issuer: "http://issuer.example", Audience: "a"}, "begins with https://"},
		{Config{Issuer: "http://10.0.0.1", Audience: "a"}, "begins with https://"},
		{Config{Issuer: "http://localhost.evil.example", Audience: "a"}, "begins with https://"},
		{Config{Issuer: "ftp://127.0.0.1", Audience: "a"}, "begins with https://"},
		{Config{Issuer: "", Audience: "a"}, "is not the URL of an issuer"},
		{Config{Issuer: "issuer.example", Audience: "a"}, "is not the URL of an issuer"},
		{Config{Issuer: "https:issuer.example", Audience: "a"}, "is not the URL of an issuer"},
		{Config{Issuer: "https://issuer.example?tenant=x", Audience: "a"}, "is not the URL of an issuer"},
		{Config{Issuer: "https://issuer.example#x", Audience: "a"}, "is not the URL of an issuer"},
		{Config{Issuer: "https://user@issuer.example", Audience: "a"}, "is not the URL of an issuer"},
		{Config{Issuer: "https://issuer.example"}, "the audience is missing"},
		{Config{Issuer: "https://issuer.example", Audience: "a", ClockSkew: -1}, "must not be negative"},
		{Config{Issuer: "https://issuer.example", Audience: "a", CAFile: "/nonexistent/ca.pem"}, "/nonexistent/ca.pem"},
		{Config{Issuer: "https://issuer.example", Audience: "a", CAFile: empty}, "holds no PEM certificate"},
	} {
		_, err := tt.config.Open()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v", tt.config, err)
		}
	}
	for text, want := range map[string]Claim{"org=acme": {"org", "acme"}, "a=b=c": {"a", "b=c"}, "a=": {"a", ""}, "=a": {}, "org": {}, "": {}} {
		if got, err := ParseClaim(text); got != want || (err == nil) != (want != Claim{}) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
