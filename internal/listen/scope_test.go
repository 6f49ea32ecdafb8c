package listen

import (
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The claim scope of a token restricts or widens what the client may do. All scopes that tether could misunderstand are refused.
func TestScopes(t *testing.T) {
	t.Parallel()
	a, err := newAuthenticator(AuthConfig{Signed: &SignedTokens{SecretFile: secretFile(t, testSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	type claims = map[string]any
	const malformed, noSub = "invalid websocket jwt", "the token has the scope tether:admin and no sub"
	for _, tt := range []struct {
		claims          claims
		readOnly, admin bool
		refused         string
	}{
		{claims{}, false, false, ""},
		{claims{"scope": nil}, false, false, ""},
		{claims{"scope": ""}, false, false, ""},
		{claims{"scope": "openid profile"}, false, false, ""},
		{claims{"scope": "tether:read"}, true, false, ""},
		{claims{"scope": "openid  tether:read email"}, true, false, ""},
		{claims{"scope": []string{"openid", "tether:read"}}, true, false, ""},
		{claims{"scope": "tether:admin"}, false, true, ""},
		{claims{"scope": "tether:admin tether:read"}, true, true, ""},
		{claims{"scope": []string{"tether:read tether:admin"}}, true, true, ""},
		{claims{"scope": "tether:read tether:read"}, true, false, ""},
		{claims{"Scope": "tether:admin", "scopes": "tether:admin", "scp": "tether:admin"}, false, false, ""},
		{claims{"scope": "tether:Admin"}, false, false, `the token has the unknown scope "tether:Admin"`},
		{claims{"scope": "tether:read tether:write"}, false, false, `the token has the unknown scope "tether:write"`},
		{claims{"scope": "tether:"}, false, false, `the token has the unknown scope "tether:"`},
		{claims{"scope": "openid Tether:read"}, false, false, `the token has the unknown scope "Tether:read"`},
		{claims{"scope": "xtether:admin tether"}, false, false, ""},
		{claims{"scope": 5}, false, false, malformed},
		{claims{"scope": true}, false, false, malformed},
		{claims{"scope": claims{"tether:admin": true}}, false, false, malformed},
		{claims{"scope": []any{"tether:read", 5}}, false, false, malformed},
		{claims{"scope": []any{"tether:read", nil}}, false, false, malformed},
		{claims{"scope": []any{[]string{"tether:admin"}}}, false, false, malformed},
		{claims{"scope": "tether:admin", "sub": nil}, false, false, noSub},
		{claims{"scope": "tether:admin", "sub": ""}, false, false, noSub},
		{claims{"scope": "tether:read", "sub": nil}, true, false, ""},
	} {
		c := claims{"exp": time.Now().Add(time.Hour).Unix(), "sub": "alice"}
		for name, value := range tt.claims {
			c[name] = value
		}
		token := sign(t, jwt.SigningMethodHS256, []byte(testSecret), c)
		got, err := a.Check(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}})
		if errText(err) != tt.refused {
			t.Errorf("%v: %q, want %q", tt.claims, errText(err), tt.refused)
		}
		if err == nil && (got.ReadOnly != tt.readOnly || got.Admin != tt.admin) {
			t.Errorf("%v: %+v", tt.claims, got)
		}
	}
}

// A server that knows nothing of clients that may only look refuses them.
func TestLookingNeedsAServerThatKnowsIt(t *testing.T) {
	t.Parallel()
	token := "Authorization: Bearer " + sign(t, jwt.SigningMethodHS256, []byte(testSecret), map[string]any{"exp": time.Now().Add(time.Hour).Unix(), "scope": "tether:read"})
	s := startUpgrader(t, Config{Auth: AuthConfig{Signed: &SignedTokens{SecretFile: secretFile(t, testSecret)}}}, nil)
	r, body := s.ask(t, "GET / HTTP/1.1\r\n"+upgradeHeaders+token+"\r\n\r\n")
	if r.StatusCode != http.StatusForbidden || body != "this server has nothing that a read-only client may use" {
		t.Errorf("%s %q", r.Status, body)
	}
}
