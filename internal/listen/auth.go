package listen

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
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

// AuthConfig says how clients authenticate: with one of the two kinds of tokens, or
// not at all.
type AuthConfig struct {
	Token  *CapabilityToken
	Signed *SignedTokens
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
	case c.Signed != nil && c.Signed.ClockSkew < 0:
		return errors.New("the clock skew of signed tokens must not be negative")
	}
	return nil
}

// An Authenticator decides which clients may upgrade. It holds digests and keys:
// never print one.
type Authenticator struct {
	check func(token string) (Client, error)
	names bool // tokens name their clients: a certificate does not
	from  source
}

// A source is what an Authenticator was made of.
type source struct {
	config AuthConfig
	secret [sha256.Size]byte // digest of the content of the file
}

// equal reports whether both accept the same clients.
func (a *Authenticator) equal(b *Authenticator) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a.from, b.from)
}

// NewToken returns an Authenticator that accepts one token.
func NewToken(token string) *Authenticator {
	return &Authenticator{check: capability{sha256.Sum256([]byte(token))}.check}
}

// newAuthenticator reads the secrets that c names, once. Without any it returns
// nil, and a nil Authenticator accepts every client.
func newAuthenticator(c AuthConfig) (*Authenticator, error) {
	switch {
	case c.Token != nil && c.Token.File == "":
		return &Authenticator{check: capability{c.Token.SHA256}.check, from: source{config: c}}, nil
	case c.Token != nil:
		token, _, err := readSecret(c.Token.File)
		if err != nil {
			return nil, err
		}
		digest := sha256.Sum256([]byte(token))
		return &Authenticator{check: capability{digest}.check, from: source{c, digest}}, nil
	case c.Signed != nil:
		secret, path, err := readSecret(c.Signed.SecretFile)
		if err != nil {
			return nil, err
		}
		if len(secret) < minSharedSecret {
			return nil, fmt.Errorf("signed websocket bearer secret %s must be at least %d bytes", path, minSharedSecret)
		}
		issuer, audience := strings.TrimSpace(c.Signed.Issuer), strings.TrimSpace(c.Signed.Audience)
		check := signedBearer{[]byte(secret), issuer, audience, c.Signed.ClockSkew}.check
		return &Authenticator{check: check, names: true, from: source{c, sha256.Sum256([]byte(secret))}}, nil
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

// An authError says why a client may not connect.
type authError struct{ reason, text string }

func (e *authError) Error() string { return e.text }

// reasonOf returns the reason of an error of Check.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*authError](err); ok {
		return e.reason
	}
	return badToken
}

// Check returns the client if the request may upgrade. The error's text is the body of the 401 answer.
func (a *Authenticator) Check(r *http.Request) (Client, error) {
	if a == nil {
		return certified(r), nil
	}
	headers := r.Header["Authorization"]
	if len(headers) == 0 {
		return Client{}, &authError{noToken, "missing websocket bearer token"}
	}
	scheme, token, found := strings.Cut(headers[0], " ")
	token = strings.TrimSpace(token)
	if !found || !strings.EqualFold(scheme, "bearer") || token == "" || !visibleASCII(headers[0]) {
		return Client{}, &authError{badToken, "invalid authorization header"}
	}
	c, err := a.check(token)
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

// check returns no principal: all clients have the same token.
func (c capability) check(token string) (Client, error) {
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], c.digest[:]) != 1 {
		return Client{}, &authError{badToken, "invalid websocket bearer token"}
	}
	return Client{}, nil
}

// signedBearer accepts JWTs signed with key. HS256 is the only algorithm, so a
// token cannot choose a weaker one.
type signedBearer struct {
	key              []byte
	issuer, audience string // "": any
	skew             int64  // seconds, not negative
}

var errInvalidJWT error = &authError{badToken, "invalid websocket jwt"}

// check returns the claim sub as principal, with the rights of the claim scope.
func (s signedBearer) check(token string) (Client, error) {
	claims, err := s.verify(token)
	if err != nil {
		return Client{}, errInvalidJWT
	}
	now := time.Now().Unix()
	switch {
	case now > saturatingAdd(claims.expires, s.skew):
		return Client{}, &authError{oldToken, "expired websocket jwt"}
	case claims.notBefore != nil && saturatingAdd(now, s.skew) < *claims.notBefore:
		return Client{}, &authError{oldToken, "websocket jwt is not valid yet"}
	case s.issuer != "" && (claims.issuer == nil || *claims.issuer != s.issuer):
		return Client{}, &authError{otherToken, "websocket jwt issuer mismatch"}
	case s.audience != "" && !slices.Contains(claims.audience, s.audience):
		return Client{}, &authError{otherToken, "websocket jwt audience mismatch"}
	}
	c := Client{Principal: claims.subject, Expires: time.Unix(min(saturatingAdd(claims.expires, s.skew), maxUnix), 0)}
	return c, c.setScopes(claims.scopes)
}

// verify returns the claims of a token whose signature is valid. It decodes nothing
// before that.
func (s signedBearer) verify(token string) (jwtClaims, error) {
	// Two cuts, whatever the token looks like: its sender is unknown.
	header, rest, _ := strings.Cut(token, ".")
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") {
		return jwtClaims{}, errInvalidJWT
	}
	base64URL := base64.RawURLEncoding.Strict()
	mac, err := base64URL.DecodeString(signature)
	if err != nil {
		return jwtClaims{}, err
	}
	want := hmac.New(sha256.New, s.key)
	want.Write([]byte(header + "." + payload))
	if !hmac.Equal(mac, want.Sum(nil)) {
		return jwtClaims{}, errInvalidJWT
	}
	head, err := base64URL.DecodeString(header)
	if err != nil {
		return jwtClaims{}, err
	}
	body, err := base64URL.DecodeString(payload)
	if err != nil {
		return jwtClaims{}, err
	}
	if err := checkJWTHeader(head); err != nil {
		return jwtClaims{}, err
	}
	return parseClaims(body)
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

// jwtClaims are the claims that are checked. Times are whole Unix seconds.
type jwtClaims struct {
	expires   int64
	notBefore *int64
	issuer    *string
	audience  audience
	subject   string // "": none
	scopes    scopes
}

func parseClaims(body []byte) (c jwtClaims, err error) {
	members, err := jsonObject(body)
	if err != nil {
		return c, err
	}
	var expires *int64
	err = errors.Join(
		member(members, "exp", &expires),
		member(members, "nbf", &c.notBefore),
		member(members, "iss", &c.issuer),
		member(members, "aud", &c.audience),
		member(members, "sub", &c.subject),
		member(members, "scope", &c.scopes),
	)
	if err == nil && !validPrincipal(c.subject) {
		err = errors.New("sub is too long or not printable")
	}
	if err == nil && expires == nil {
		err = errors.New("no exp")
	}
	if err != nil {
		return c, err
	}
	c.expires = *expires
	return c, nil
}

// jsonObject splits an object into its members. Unlike decoding into a struct, it
// matches names by their exact case.
func jsonObject(text []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	return members, nil
}

// member decodes an optional member; if it is absent or null, v is not changed.
func member(members map[string]json.RawMessage, name string, v any) error {
	if raw, ok := members[name]; ok {
		return json.Unmarshal(raw, v)
	}
	return nil
}

// audience is a string or a list of strings in JSON.
type audience []string

func (a *audience) UnmarshalJSON(text []byte) error {
	var one *string
	if err := json.Unmarshal(text, &one); err == nil {
		if one != nil {
			*a = audience{*one}
		}
		return nil
	}
	// A list may not hold null, which would decode as an empty string.
	var many []*string
	if err := json.Unmarshal(text, &many); err != nil {
		return err
	}
	for _, s := range many {
		if s == nil {
			return errors.New("null in aud")
		}
		*a = append(*a, *s)
	}
	return nil
}

// maxUnix is the last time that can be compared with others, in seconds.
const maxUnix = math.MaxInt64 >> 8

// saturatingAdd returns a+b for b ≥ 0, or the largest number if that is larger.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
