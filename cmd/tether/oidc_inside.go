//go:build fleet

package main

import (
	"fmt"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/oidc"
)

// tokens returns which tokens are accepted.
func (f *oidcFlags) tokens(clockSkew int64) (listen.OtherTokens, error) {
	c := &oidc.Config{Issuer: *f.issuer, Audience: *f.audience, ClockSkew: clockSkew}
	if f.scopeClaim != nil {
		c.ScopeClaim = *f.scopeClaim
	}
	if f.ca != nil {
		c.CAFile = *f.ca
	}
	for _, text := range f.claims {
		claim, err := oidc.ParseClaim(text)
		if err != nil {
			return nil, fmt.Errorf("--oidc-claim: %w", err)
		}
		c.Claims = append(c.Claims, claim)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("--oidc-issuer: %w", err)
	}
	return c, nil
}
