package tethertest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/listen"
)

// An Issuer signs the tokens of clients.
type Issuer struct {
	SecretFile string // for the server

	t      testing.TB
	secret []byte
}

// NewIssuer returns an issuer with a secret of its own.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{SecretFile: filepath.Join(t.TempDir(), "secret"), t: t, secret: []byte("0123456789abcdef0123456789abcdef")}
	if err := os.WriteFile(i.SecretFile, i.secret, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

// Listen returns the settings of a listener that accepts the tokens.
func (i *Issuer) Listen() listen.Config {
	return listen.Config{Auth: listen.AuthConfig{Signed: &listen.SignedTokens{SecretFile: i.SecretFile}}}
}

// Token returns a token for a subject; "": without one.
func (i *Issuer) Token(subject string, scopes ...string) string {
	i.t.Helper()
	claims := map[string]any{"exp": time.Now().Add(time.Hour).Unix()}
	if subject != "" {
		claims["sub"] = subject
	}
	if scopes != nil {
		claims["scope"] = strings.Join(scopes, " ")
	}
	body, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256"}`)) + "." + encode(body)
	mac := hmac.New(sha256.New, i.secret)
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}
