//go:build !fleet

package main

import (
	"errors"

	"github.com/tetherexec/tether/internal/listen"
)

// tokens is only reached if a configuration file gets an issuer while the server runs.
func (f *oidcFlags) tokens(int64) (listen.OtherTokens, error) {
	return nil, errors.New("`--oidc-issuer` needs a restart: the server becomes the program " + withFleet.program)
}
