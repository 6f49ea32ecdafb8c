// Package oidc checks bearer tokens that an OpenID Connect issuer has signed. It fetches the public keys of the issuer when it needs them and keeps them.
//
// A token is accepted if it is signed by a key of the issuer with an asymmetric algorithm, names the issuer and the audience, has not expired, and has all
// claims that are asked for. Whatever cannot be checked is refused: also all tokens, as long as the issuer cannot be reached and no keys are known.
//
// Where a change belongs: oidc.go has the settings and the checks of a token, keys.go the keys that are kept and when they are fetched, fetch.go the requests
// to the issuer.
package oidc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/tetherexec/tether/internal/listen"
)

// Config says which tokens are accepted. *Config implements listen.OtherTokens.
type Config struct {
	Issuer     string  // its URL, as tokens name it
	Audience   string  // that tokens must name
	Claims     []Claim // that tokens must have, besides
	ScopeClaim string  // the claim that has the scopes; "": scope
	ClockSkew  int64   // how many seconds the clocks may differ; not negative
	CAFile     string  // certificates to trust for the issuer, instead of those of the machine; "": the latter
}

// Validate checks the settings. It reads no file.
func (c *Config) Validate() error {
	switch err := checkIssuer(c.Issuer); {
	case err != nil:
		return err
	case c.Audience == "":
		return errors.New("the audience is missing: without it, a token that the issuer has made for any other program would be accepted")
	case c.ClockSkew < 0:
		return errors.New("the clock skew of tokens must not be negative")
	}
	return nil
}

// Files returns the file that is read.
func (c *Config) Files() []string {
	if c.CAFile == "" {
		return nil
	}
	return []string{c.CAFile}
}

// Open returns a Verifier. It asks the issuer nothing yet: the issuer may be down.
func (c *Config) Open() (listen.Verifier, error) { return newVerifier(c) }

// A Claim is what a token must say: the claim Name is the text Value, a list with it, or a number or a truth value that is written like it.
type Claim struct{ Name, Value string }

// ParseClaim parses NAME=VALUE.
func ParseClaim(text string) (Claim, error) {
	name, value, found := strings.Cut(text, "=")
	if !found || name == "" {
		return Claim{}, fmt.Errorf("%q is not NAME=VALUE", text)
	}
	return Claim{name, value}, nil
}

// algorithms are those with a public key. Nothing that is known to clients can be the key of a token.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// A Verifier checks tokens. It implements listen.Verifier.
type Verifier struct {
	config *Config
	rules  listen.ClaimRules
	checks *oidc.Config
	keys   *keys
}

func newVerifier(c *Config) (*Verifier, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	web, err := newClient(c.CAFile)
	if err != nil {
		return nil, err
	}
	v := &Verifier{
		config: c, rules: listen.ClaimRules{Issuer: c.Issuer, Audience: c.Audience, ClockSkew: c.ClockSkew, Scopes: c.ScopeClaim},
		checks: &oidc.Config{ClientID: c.Audience, SkipExpiryCheck: true}, // the rules check it, with the clock skew of the configuration
		keys:   newKeys(func(ctx context.Context) ([]jose.JSONWebKey, error) { return fetchKeys(ctx, web, c.Issuer) }),
	}
	for _, a := range algorithms {
		v.checks.SupportedSigningAlgs = append(v.checks.SupportedSigningAlgs, string(a))
	}
	return v, nil
}

// Verify returns the client that a token names. The error is a *listen.Refusal. The log gets what concerns the issuer.
func (v *Verifier) Verify(ctx context.Context, token string, log *slog.Logger) (listen.Client, error) {
	if strings.Count(token, ".") != 2 || strings.HasPrefix(token, "{") { // the library would also accept the JSON form, which has unsigned parts
		return listen.Client{}, errInvalid
	}
	s := &signature{keys: v.keys, log: log}
	_, err := oidc.NewVerifier(v.config.Issuer, s, v.checks).Verify(ctx, token)
	if s.payload == nil {
		return listen.Client{}, cmp.Or(s.refusal, errInvalid)
	}
	client, refused := v.rules.Client(s.payload)
	switch {
	case refused != nil:
		return listen.Client{}, refused
	case err != nil:
		return listen.Client{}, errInvalid
	}
	return v.named(client, s.payload)
}

var (
	errInvalid  = &listen.Refusal{Reason: listen.BadToken, Text: "invalid token"}
	errUnknown  = &listen.Refusal{Reason: listen.BadToken, Text: "the token is not signed with a known key of the issuer"}
	errNoKeys   = &listen.Refusal{Reason: listen.NoKeys, Text: "tokens cannot be checked now: the server has no keys of the issuer; try again later", Later: true}
	errNoName   = &listen.Refusal{Reason: listen.OtherToken, Text: "the token has no sub"}
	errLongName = &listen.Refusal{Reason: listen.OtherToken, Text: "the sub of the token is too long"}
)

// named checks the remaining claims, and gives the client its name: a sub is unique only for its issuer.
func (v *Verifier) named(c listen.Client, payload []byte) (listen.Client, error) {
	var claims map[string]json.RawMessage
	if err := json.Unmarshal(payload, &claims); err != nil {
		return listen.Client{}, errInvalid
	}
	for _, want := range v.config.Claims {
		if !want.in(claims[want.Name]) {
			return listen.Client{}, &listen.Refusal{Reason: listen.OtherToken, Text: "the token has not the claim " + want.Name + " that is asked for"}
		}
	}
	if c.Principal == "" {
		return listen.Client{}, errNoName
	}
	c.Principal = "oidc:" + v.config.Issuer + "#" + c.Principal
	if !listen.ValidPrincipal(c.Principal) {
		return listen.Client{}, errLongName
	}
	return c, nil
}

// in reports whether the value of a claim is what is asked for.
func (c Claim) in(value json.RawMessage) bool {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil {
		return slices.ContainsFunc(list, c.is)
	}
	return c.is(value)
}

// is reports whether a value that is not a list is what is asked for.
func (c Claim) is(value json.RawMessage) bool {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case string:
		return v == c.Value
	case bool, float64:
		return string(value) == c.Value
	}
	return false
}

// A signature checks the signature of one token.
type signature struct {
	keys    *keys
	log     *slog.Logger
	payload []byte          // of a token with a valid signature
	refusal *listen.Refusal // nil: there is nothing particular to say
}

// VerifySignature implements oidc.KeySet.
func (s *signature) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, err
	}
	head := jws.Signatures[0].Protected
	if !bearer(head) {
		return nil, errInvalid
	}
	found, err := s.keys.find(ctx, head.KeyID, head.Algorithm, s.log)
	if err != nil {
		s.refusal, _ = errors.AsType[*listen.Refusal](err)
		return nil, err
	}
	for _, key := range found {
		if payload, err := jws.Verify(key.Key); err == nil {
			s.payload = payload
			return payload, nil
		}
	}
	return nil, errInvalid
}

// bearer reports whether a token can be that of a client. Issuers sign other things, such as a message that a user has logged out, and say so in the type.
func bearer(head jose.Header) bool {
	name, given := head.ExtraHeaders[jose.HeaderType]
	if !given {
		return true
	}
	text, _ := name.(string)
	text = strings.TrimPrefix(strings.ToLower(text), "application/")
	return text == "jwt" || text == "at+jwt"
}
