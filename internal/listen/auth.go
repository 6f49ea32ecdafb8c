package listen

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"
)

const (
	// minSharedSecret is the least length of an HS256 key: a shorter one is easier
	// to guess than the hash is to break.
	minSharedSecret = 32
	// maxSecretFile limits what is read from a secret file, so that an endless file
	// is an error and not a hang.
	maxSecretFile = 64 << 10
	// DefaultClockSkew is how far, in seconds, the clocks of the token's issuer and
	// of this machine may differ by default.
	DefaultClockSkew = 30
)

// AuthConfig says how clients authenticate: with one kind of tokens, or not at all.
type AuthConfig struct {
	Token  *CapabilityToken
	Signed *SignedTokens
	Other  OtherTokens // a pointer
}

// OtherTokens are tokens of a kind that not all programs know. See package oidc.
type OtherTokens interface {
	Validate() error // checks the settings, and reads no file
	Files() []string // that Open reads
	Open() (Verifier, error)
}

// A Verifier checks tokens. The error of Verify should be a *Refusal. The log is for what concerns no client.
type Verifier interface {
	Verify(ctx context.Context, token string, log *slog.Logger) (Client, error)
}

// A CapabilityToken is one token that all clients share.
type CapabilityToken struct {
	File   string            // the file with the token; "": the token has the digest SHA256
	SHA256 [sha256.Size]byte // if File is empty
}

// SignedTokens are HS256 JWTs that are signed with a shared secret.
type SignedTokens struct {
	SecretFile string // holds the key
	Issuer     string // expected "iss"; blank: any
	Audience   string // expected in "aud"; blank: any
	ClockSkew  int64  // how many seconds clocks may differ; not negative
}

func (c AuthConfig) enabled() bool { return c != AuthConfig{} }

// validate checks that the settings are consistent. It reads no file.
func (c AuthConfig) validate() error {
	switch {
	case c.Token != nil && c.Signed != nil:
		return errors.New("clients authenticate with a capability token or with signed tokens, not with both")
	case c.Other != nil && (c.Token != nil || c.Signed != nil):
		return errors.New("clients authenticate with one kind of tokens, not with two")
	case c.Signed != nil && c.Signed.ClockSkew < 0:
		return errors.New("the clock skew of signed tokens must not be negative")
	case c.Other != nil:
		return c.Other.Validate()
	}
	return nil
}

// An Authenticator decides which clients may upgrade. It holds digests and keys:
// never print one.
type Authenticator struct {
	check Verifier
	names bool // tokens name their clients: a certificate does not
	from  source
}

// A source is what an Authenticator was made of.
type source struct {
	config AuthConfig
	secret [sha256.Size]byte // digest of the content of the files
}

// equal reports whether both accept the same clients.
func (a *Authenticator) equal(b *Authenticator) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a.from, b.from)
}

// NewToken returns an Authenticator that accepts one token.
func NewToken(token string) *Authenticator {
	return &Authenticator{check: capability{sha256.Sum256([]byte(token))}}
}

// newAuthenticator reads the secrets that c names, once. Without any it returns
// nil, and a nil Authenticator accepts every client.
func newAuthenticator(c AuthConfig) (*Authenticator, error) {
	switch {
	case c.Token != nil && c.Token.File == "":
		return &Authenticator{check: capability{c.Token.SHA256}, from: source{config: c}}, nil
	case c.Token != nil:
		token, _, err := readSecret(c.Token.File)
		if err != nil {
			return nil, err
		}
		digest := sha256.Sum256([]byte(token))
		return &Authenticator{check: capability{digest}, from: source{c, digest}}, nil
	case c.Signed != nil:
		secret, path, err := readSecret(c.Signed.SecretFile)
		if err != nil {
			return nil, err
		}
		if len(secret) < minSharedSecret {
			return nil, fmt.Errorf("signed websocket bearer secret %s must be at least %d bytes", path, minSharedSecret)
		}
		issuer, audience := strings.TrimSpace(c.Signed.Issuer), strings.TrimSpace(c.Signed.Audience)
		check := signedBearer{[]byte(secret), ClaimRules{Issuer: issuer, Audience: audience, ClockSkew: c.Signed.ClockSkew}}
		return &Authenticator{check: check, names: true, from: source{c, sha256.Sum256([]byte(secret))}}, nil
	case c.Other != nil:
		digest := sha256.New()
		for _, name := range c.Other.Files() {
			content, _ := os.ReadFile(name) // Open reads it, too, and says why if that fails
			digest.Write(content)
		}
		check, err := c.Other.Open()
		return &Authenticator{check: check, names: true, from: source{c, [sha256.Size]byte(digest.Sum(nil))}}, err
	}
	return nil, nil
}

// readSecret returns the content of a secret file without surrounding white space,
// and the absolute path for messages.
func readSecret(name string) (secret, path string, err error) {
	path, err = filepath.Abs(name)
	if err != nil {
		path = name
	}
	content, err := readBounded(path, maxSecretFile)
	if err != nil {
		return "", path, fmt.Errorf("failed to read websocket auth secret %s: %w", path, err)
	}
	secret = strings.TrimSpace(string(content))
	if secret == "" {
		return "", path, fmt.Errorf("websocket auth secret %s must not be empty", path)
	}
	return secret, path, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case int64(len(content)) > limit:
		return nil, fmt.Errorf("larger than %d bytes", limit)
	case !utf8.Valid(content):
		return nil, errors.New("not valid UTF-8 text")
	}
	return content, nil
}

// cause drops the path from a file error whose message already names it.
func cause(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

// A Refusal says why a client may not connect.
type Refusal struct {
	Reason string // for metrics
	Text   string // for the client
	Later  bool   // it cannot be decided now: the client may try again
}

func (e *Refusal) Error() string { return e.Text }

// reasonOf returns the reason of an error of Check.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*Refusal](err); ok {
		return e.Reason
	}
	return BadToken
}

// statusOf returns the status of the answer to a client that is refused.
func statusOf(err error) int {
	if e, ok := errors.AsType[*Refusal](err); ok && e.Later {
		return http.StatusServiceUnavailable
	}
	return http.StatusUnauthorized
}

// Check returns the client if the request may upgrade. The error's text is the body of the answer.
func (a *Authenticator) Check(r *http.Request) (Client, error) {
	return a.checkWith(r, slog.New(slog.DiscardHandler))
}

func (a *Authenticator) checkWith(r *http.Request, log *slog.Logger) (Client, error) {
	if a == nil {
		return certified(r), nil
	}
	headers := r.Header["Authorization"]
	if len(headers) == 0 {
		return Client{}, &Refusal{Reason: noToken, Text: "missing websocket bearer token"}
	}
	scheme, token, found := strings.Cut(headers[0], " ")
	token = strings.TrimSpace(token)
	if !found || !strings.EqualFold(scheme, "bearer") || token == "" || !visibleASCII(headers[0]) {
		return Client{}, &Refusal{Reason: BadToken, Text: "invalid authorization header"}
	}
	c, err := a.check.Verify(r.Context(), token, log)
	if err == nil && !a.names {
		c = certified(r)
	}
	return c, err
}

func visibleASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

// capability accepts one token, known by its digest only.
type capability struct {
	digest [sha256.Size]byte
}

// Verify returns no principal: all clients have the same token.
func (c capability) Verify(_ context.Context, token string, _ *slog.Logger) (Client, error) {
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], c.digest[:]) != 1 {
		return Client{}, &Refusal{Reason: BadToken, Text: "invalid websocket bearer token"}
	}
	return Client{}, nil
}

// signedBearer accepts JWTs signed with key. HS256 is the only algorithm, so a
// token cannot choose a weaker one.
type signedBearer struct {
	key   []byte
	rules ClaimRules
}

var errInvalidJWT error = &Refusal{Reason: BadToken, Text: "invalid websocket jwt"}

func (s signedBearer) Verify(_ context.Context, token string, _ *slog.Logger) (Client, error) {
	claims, err := s.verify(token)
	if err != nil {
		return Client{}, errInvalidJWT
	}
	return s.rules.Client(claims)
}

// verify returns the claims of a token whose signature is valid. It decodes nothing
// before that.
func (s signedBearer) verify(token string) ([]byte, error) {
	// Two cuts, whatever the token looks like: its sender is unknown.
	header, rest, _ := strings.Cut(token, ".")
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") {
		return nil, errInvalidJWT
	}
	base64URL := base64.RawURLEncoding.Strict()
	mac, err := base64URL.DecodeString(signature)
	if err != nil {
		return nil, err
	}
	want := hmac.New(sha256.New, s.key)
	want.Write([]byte(header + "." + payload))
	if !hmac.Equal(mac, want.Sum(nil)) {
		return nil, errInvalidJWT
	}
	head, err := base64URL.DecodeString(header)
	if err != nil {
		return nil, err
	}
	body, err := base64URL.DecodeString(payload)
	if err != nil {
		return nil, err
	}
	return body, checkJWTHeader(head)
}

func checkJWTHeader(header []byte) error {
	members, err := jsonObject(header)
	if err != nil {
		return err
	}
	var alg string
	if err := json.Unmarshal(members["alg"], &alg); err != nil {
		return err
	}
	if alg != "HS256" {
		return errInvalidJWT
	}
	// The issuer demands that extensions named in crit are understood, and none is
	// known here (RFC 7515, section 4.1.11).
	if _, ok := members["crit"]; ok {
		return errInvalidJWT
	}
	for _, name := range []string{"typ", "kid"} {
		var text *string
		if err := member(members, name, &text); err != nil {
			return err
		}
	}
	return nil
}
