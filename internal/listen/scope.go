package listen

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The scopes of a token. Others that begin with scopePrefix, in whatever case, make it invalid: they may be restrictions, of a later version or with an error.
const (
	scopePrefix = "tether:"
	scopeRead   = "tether:read"  // see Client.ReadOnly
	scopeAdmin  = "tether:admin" // see Client.Admin
)

// setScopes gives the client the rights that its token names. A restriction is never lifted by another scope: with both, the client may look at
// the sessions of all principals. Scopes of other programs mean nothing.
func (c *Client) setScopes(names scopes) error {
	for _, name := range names {
		switch {
		case name == scopeRead:
			c.ReadOnly = true
		case name == scopeAdmin:
			c.Admin = true
		case strings.HasPrefix(strings.ToLower(name), scopePrefix):
			return &Refusal{Reason: OtherToken, Text: fmt.Sprintf("the token has the unknown scope %.64q", name)}
		}
	}
	if c.Admin && c.Principal == "" { // the audit log has to name it
		return &Refusal{Reason: OtherToken, Text: "the token has the scope " + scopeAdmin + " and no sub"}
	}
	return nil
}

// scopes are a text with spaces between the names, or a list of names, in JSON.
type scopes []string

func (s *scopes) UnmarshalJSON(text []byte) error {
	var list audience
	if err := json.Unmarshal(text, &list); err != nil {
		return errors.New("the scope is neither a text nor a list of texts")
	}
	for _, names := range list {
		*s = append(*s, strings.Fields(names)...)
	}
	return nil
}
