package listen

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const testSecret = "0123456789abcdef0123456789abcdef"

// secretFile writes a file and returns its path.
func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// authorized runs Check on a request with these Authorization headers and
// returns the text of the refusal.
func authorized(a *Authenticator, headers ...string) string {
	r := &http.Request{Header: http.Header{}}
	if headers != nil {
		r.Header["Authorization"] = headers
	}
	if _, err := a.Check(r); err != nil {
		return err.Error()
	}
	return ""
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAuthStartErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, blank, short := file("good", testSecret), file("blank", " \n\t"), file("short", " "+testSecret[1:]+"\n")
	binary, huge := file("binary", strings.Repeat("\xff", 40)), file("huge", strings.Repeat("x", maxSecretFile+1))
	missing := filepath.Join(dir, "missing")
	token := func(file string) AuthConfig { return AuthConfig{Token: &CapabilityToken{File: file}} }
	signed := func(file string) AuthConfig { return AuthConfig{Signed: &SignedTokens{SecretFile: file}} }

	tests := []struct {
		name string
		conf AuthConfig
		want string // "" for success
	}{
		{"nothing", AuthConfig{}, ""},
		{"both", AuthConfig{Token: token(good).Token, Signed: signed(good).Signed}, "clients authenticate with a capability token or with signed tokens, not with both"},

		{"token: digest", AuthConfig{Token: &CapabilityToken{}}, ""},
		{"token: file", token(short), ""},
		{"token: file blank", token(blank), "websocket auth secret " + blank + " must not be empty"},
		{"token: file missing", token(missing), "failed to read websocket auth secret " + missing + ": no such file or directory"},
		{"token: directory", token(dir), "failed to read websocket auth secret " + dir + ": is a directory"},
		{"token: not text", token(binary), "failed to read websocket auth secret " + binary + ": not valid UTF-8 text"},
		{"token: endless", token(huge), "failed to read websocket auth secret " + huge + ": larger than 65536 bytes"},

		{"signed: ok", signed(good), ""},
		{"signed: blank", signed(blank), "websocket auth secret " + blank + " must not be empty"},
		{"signed: short", signed(short), "signed websocket bearer secret " + short + " must be at least 32 bytes"},
		{"signed: skew", AuthConfig{Signed: &SignedTokens{SecretFile: good, ClockSkew: -1}}, "the clock skew of signed tokens must not be negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Open(t.Context(), Config{Auth: tt.conf})
			if err == nil {
				l.Close()
			}
			if got := errText(err); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestSecretPathIsRelativeToWorkingDirectory(t *testing.T) {
	t.Chdir(filepath.Dir(secretFile(t, "tok")))
	a, err := newAuthenticator(AuthConfig{Token: &CapabilityToken{File: "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := authorized(a, "Bearer tok"); got != "" {
		t.Error(got)
	}
}

func TestCapabilityToken(t *testing.T) {
	const (
		missing = "missing websocket bearer token"
		header  = "invalid authorization header"
		invalid = "invalid websocket bearer token"
	)
	sum := sha256.Sum256([]byte("s3cret"))
	digest := hex.EncodeToString(sum[:])
	for name, conf := range map[string]AuthConfig{
		"file":   {Token: &CapabilityToken{File: secretFile(t, "  s3cret \n")}},
		"digest": {Token: &CapabilityToken{SHA256: sum}},
	} {
		a, err := newAuthenticator(conf)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			headers []string
			want    string
		}{
			{nil, missing},
			{[]string{"Bearer s3cret"}, ""},
			{[]string{"bEARER    s3cret"}, ""},
			{[]string{"Bearer \ts3cret"}, ""},
			{[]string{"Bearer s3cret", "Bearer other"}, ""},
			{[]string{"Bearer other", "Bearer s3cret"}, invalid},
			{[]string{"Bearer s3cret x"}, invalid},
			{[]string{"Bearer S3CRET"}, invalid},
			{[]string{"Bearer " + digest}, invalid},
			{[]string{""}, header},
			{[]string{"Bearer"}, header},
			{[]string{"Bearer "}, header},
			{[]string{"Bearer\ts3cret"}, header},
			{[]string{"Bearers s3cret"}, header},
			{[]string{"Basic s3cret"}, header},
			{[]string{"Bearer s3cr\u00e9t"}, header},
			{[]string{"Bearer s3cr\xe9t"}, header},
		} {
			if got := authorized(a, tt.headers...); got != tt.want {
				t.Errorf("%s: %q: got %q, want %q", name, tt.headers, got, tt.want)
			}
		}
	}
}

func TestNoAuthenticatorIgnoresTheHeader(t *testing.T) {
	a, err := newAuthenticator(AuthConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if got := authorized(a, "nonsense"); got != "" {
		t.Error(got)
	}
}

// sign makes a JWT with another library, so that two implementations have to agree.
func sign(t *testing.T, method jwt.SigningMethod, key any, claims map[string]any) string {
	t.Helper()
	s, err := jwt.NewWithClaims(method, jwt.MapClaims(claims)).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signParts(t *testing.T, header, claims string) string {
	t.Helper()
	text := encode(header) + "." + encode(claims)
	mac, err := jwt.SigningMethodHS256.Sign(text, []byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(string(mac))
}

func encode(s string) string { return (&jwt.Token{}).EncodeSegment([]byte(s)) }

func TestSignedBearerClaims(t *testing.T) {
	const (
		invalid  = "invalid websocket jwt"
		expired  = "expired websocket jwt"
		notYet   = "websocket jwt is not valid yet"
		issuer   = "websocket jwt issuer mismatch"
		audience = "websocket jwt audience mismatch"
	)
	strict, err := newAuthenticator(AuthConfig{Signed: &SignedTokens{SecretFile: secretFile(t, "\n"+testSecret+"\n"),
		Issuer: " me ", Audience: "you", ClockSkew: DefaultClockSkew}})
	if err != nil {
		t.Fatal(err)
	}
	open, err := newAuthenticator(AuthConfig{Signed: &SignedTokens{SecretFile: secretFile(t, testSecret), Issuer: "  "}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	type claims = map[string]any
	for _, tt := range []struct {
		name       string
		change     claims // changes to valid claims; nil removes
		want, open string // with issuer and audience configured, and without
	}{
		{"good", nil, "", ""},
		{"exp within skew", claims{"exp": now - 20}, "", expired},
		{"exp past skew", claims{"exp": now - 60}, expired, expired},
		{"exp negative", claims{"exp": -5}, expired, expired},
		{"exp smallest", claims{"exp": int64(math.MinInt64)}, expired, expired},
		{"exp largest", claims{"exp": int64(math.MaxInt64)}, "", ""},
		{"exp too large", claims{"exp": uint64(math.MaxInt64) + 1}, invalid, invalid},
		{"exp missing", claims{"exp": nil}, invalid, invalid},
		{"exp float", claims{"exp": float64(now) + 100.5}, invalid, invalid},
		{"exp string", claims{"exp": "99999999999"}, invalid, invalid},
		{"nbf past", claims{"nbf": now - 5}, "", ""},
		{"nbf within skew", claims{"nbf": now + 20}, "", notYet},
		{"nbf future", claims{"nbf": now + 90}, notYet, notYet},
		{"nbf smallest", claims{"nbf": int64(math.MinInt64)}, "", ""},
		{"nbf float", claims{"nbf": 1.5}, invalid, invalid},
		{"nbf string", claims{"nbf": "1"}, invalid, invalid},
		{"iss other", claims{"iss": "x"}, issuer, ""},
		{"iss missing", claims{"iss": nil}, issuer, ""},
		{"iss number", claims{"iss": 5}, invalid, invalid},
		{"iss list", claims{"iss": []string{"me"}}, invalid, invalid},
		{"aud list", claims{"aud": []string{"a", "you"}}, "", ""},
		{"aud other", claims{"aud": "z"}, audience, ""},
		{"aud empty", claims{"aud": []string{}}, audience, ""},
		{"aud missing", claims{"aud": nil}, audience, ""},
		{"aud mixed list", claims{"aud": []any{1, "you"}}, invalid, invalid},
		{"aud list with null", claims{"aud": []any{nil, "you"}}, invalid, invalid},
		{"aud object", claims{"aud": claims{}}, invalid, invalid},
		{"iat ignored", claims{"iat": "x"}, "", ""},
		{"exp before nbf", claims{"exp": 1, "nbf": now + 90}, expired, expired},
		{"nbf before iss", claims{"nbf": now + 90, "iss": "x"}, notYet, notYet},
		{"iss before aud", claims{"iss": "x", "aud": "z"}, issuer, ""},
	} {
		c := claims{"exp": now + 100, "iss": "me", "aud": "you"}
		for k, v := range tt.change {
			if c[k] = v; v == nil {
				delete(c, k)
			}
		}
		token := "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(testSecret), c)
		if got := authorized(strict, token); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got := authorized(open, token); got != tt.open {
			t.Errorf("%s, any issuer and audience, no skew: got %q, want %q", tt.name, got, tt.open)
		}
	}
}

func TestSignedBearerStructure(t *testing.T) {
	a, err := newAuthenticator(AuthConfig{Signed: &SignedTokens{SecretFile: secretFile(t, testSecret), ClockSkew: DefaultClockSkew}})
	if err != nil {
		t.Fatal(err)
	}
	key := []byte(testSecret)
	claims := map[string]any{"exp": time.Now().Unix() + 100}
	good := sign(t, jwt.SigningMethodHS256, key, claims)
	const head, body = `{"alg":"HS256"}`, `{"exp":99999999999}`
	for _, tt := range []struct {
		name, token string
		ok          bool
	}{
		{"good", good, true},
		{"no typ", signParts(t, head, body), true},
		{"other typ", signParts(t, `{"alg":"HS256","typ":"zz"}`, body), true},
		{"crit", signParts(t, `{"alg":"HS256","crit":["x"],"x":1}`, body), false},
		{"crit of a known name", signParts(t, `{"alg":"HS256","crit":["exp"]}`, body), false},
		{"empty crit", signParts(t, `{"alg":"HS256","crit":[]}`, body), false},
		{"null crit", signParts(t, `{"alg":"HS256","crit":null}`, body), false},
		{"null nbf", signParts(t, head, `{"exp":99999999999,"nbf":null}`), true},
		{"null exp", signParts(t, head, `{"exp":null}`), false},
		{"exp in upper case", signParts(t, head, `{"EXP":99999999999}`), false},
		{"exp with exponent", signParts(t, head, `{"exp":1e11}`), false},
		{"exp with fraction", signParts(t, head, `{"exp":99999999999.0}`), false},
		{"HS512", sign(t, jwt.SigningMethodHS512, key, claims), false},
		{"none", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims), false},
		{"alg none, signed", signParts(t, `{"alg":"none"}`, body), false},
		{"alg in lower case", signParts(t, `{"alg":"hs256"}`, body), false},
		{"alg missing", signParts(t, `{"typ":"JWT"}`, body), false},
		{"typ a number", signParts(t, `{"alg":"HS256","typ":5}`, body), false},
		{"kid a number", signParts(t, `{"alg":"HS256","kid":5}`, body), false},
		{"claims a list", signParts(t, head, `[1]`), false},
		{"claims not JSON", signParts(t, head, `zz`), false},
		{"claims null", signParts(t, head, `null`), false},
		{"text after claims", signParts(t, head, body+" x"), false},
		{"other key", sign(t, jwt.SigningMethodHS256, []byte("x"), claims), false},
		{"padding", good + "=", false},
		{"truncated", good[:len(good)-2], false},
		// The last of 43 characters carries 4 bits; the other 2 must be zero.
		{"unused bits", good[:len(good)-1] + string(good[len(good)-1]+1), false},
		{"four parts", good + ".x", false},
		{"two parts", "a.b", false},
		{"one part", "a", false},
		{"dots", "..", false},
		{"many dots", strings.Repeat(".", 1000), false},
	} {
		want := ""
		if !tt.ok {
			want = "invalid websocket jwt"
		}
		if got := authorized(a, "Bearer "+tt.token); got != want {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
	}
}

// Checking an invalid token allocates less memory than the token has bytes, however
// many dots it has.
func TestUnknownTokenIsNotSplitIntoManyParts(t *testing.T) {
	s := signedBearer{key: []byte(testSecret)}
	token, runs := strings.Repeat(".", maxRequestHeader), 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if _, err := s.verify(token); err == nil {
			t.Fatal("a token of dots is accepted")
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(runs); each > uint64(len(token)) {
		t.Errorf("each check of %d bytes allocates %d", len(token), each)
	}
}
