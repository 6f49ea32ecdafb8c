package listen

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"
)

// ClaimRules say which claims of a signed token are accepted.
type ClaimRules struct {
	Issuer, Audience string // "": any
	ClockSkew        int64  // seconds, not negative
	Scopes           string // the claim that has the scopes; "": scope
}

// Client returns the client that the claims of a token name, whose signature is valid: its principal is the claim sub, and it has the rights of
// the scopes. The error is a *Refusal.
func (r ClaimRules) Client(body []byte) (Client, error) {
	claims, err := r.parse(body)
	if err != nil {
		return Client{}, errInvalidJWT
	}
	now := time.Now().Unix()
	switch {
	case now > saturatingAdd(claims.expires, r.ClockSkew):
		return Client{}, &Refusal{Reason: oldToken, Text: "expired websocket jwt"}
	case claims.notBefore != nil && saturatingAdd(now, r.ClockSkew) < *claims.notBefore:
		return Client{}, &Refusal{Reason: oldToken, Text: "websocket jwt is not valid yet"}
	case r.Issuer != "" && (claims.issuer == nil || *claims.issuer != r.Issuer):
		return Client{}, &Refusal{Reason: OtherToken, Text: "websocket jwt issuer mismatch"}
	case r.Audience != "" && !slices.Contains(claims.audience, r.Audience):
		return Client{}, &Refusal{Reason: OtherToken, Text: "websocket jwt audience mismatch"}
	}
	c := Client{Principal: claims.subject, Expires: time.Unix(min(saturatingAdd(claims.expires, r.ClockSkew), maxUnix), 0)}
	return c, c.setScopes(claims.scopes)
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

// parse decodes claims.
func (r ClaimRules) parse(body []byte) (c jwtClaims, err error) {
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
		member(members, cmp.Or(r.Scopes, "scope"), &c.scopes),
	)
	if err == nil && !ValidPrincipal(c.subject) {
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
