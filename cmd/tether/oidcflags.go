package main

import (
	"errors"

	"github.com/spf13/pflag"
)

// oidcFlags say which OpenID Connect issuer signs the tokens of clients. They are in every build, for the help and to know that the server has to be
// tether-fleet. A nil pointer is a flag that was not given.
type oidcFlags struct {
	issuer, audience, scopeClaim, ca *string
	claims                           []string
}

func (f *oidcFlags) define(fs *pflag.FlagSet) {
	fs.Var(&optional{&f.issuer, "URL", true}, "oidc-issuer", "OpenID Connect issuer that signs the tokens of clients, in place of\n--ws-auth")
	fs.Var(&optional{&f.audience, "AUDIENCE", true}, "oidc-audience", "audience that its tokens must name")
	fs.StringArrayVar(&f.claims, "oidc-claim", nil, "`NAME=VALUE` of a claim that its tokens must have; can be repeated")
	fs.Var(&optional{&f.scopeClaim, "NAME", true}, "oidc-scope-claim", "claim that has the scopes of its tokens (default scope)")
	fs.Var(&optional{&f.ca, "FILE", true}, "oidc-ca", "certificates (PEM) to trust for the issuer, instead of those of this\nmachine")
	group(fs, "Authentication and access", "oidc-issuer", "oidc-audience", "oidc-claim", "oidc-scope-claim", "oidc-ca")
}

// check reports whether there is an issuer, and refuses flags that have no effect.
func (f *oidcFlags) check() (given bool, err error) {
	switch {
	case f.issuer == nil && (f.audience != nil || f.scopeClaim != nil || f.ca != nil || f.claims != nil):
		return false, errors.New("`--oidc-audience`, `--oidc-claim`, `--oidc-scope-claim` and `--oidc-ca` require `--oidc-issuer`")
	case f.issuer != nil && f.audience == nil:
		return true, errors.New("`--oidc-issuer` requires `--oidc-audience`: without it, a token that the issuer has made for any other program would be accepted")
	}
	return f.issuer != nil, nil
}
