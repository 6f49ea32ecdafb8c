package listen

import (
	"log/slog"
	"net/http"
	"sync/atomic"
)

// An access decides which clients may connect. Its parts are replaced as a whole while the listener runs. A nil access lets every client
// connect.
type access struct {
	auth  atomic.Pointer[Authenticator] // nil: clients need no token
	certs *certificates                 // nil: no TLS
}

// newAccess reads the secrets and the certificates.
func newAccess(c Config) (a *access, err error) {
	a = new(access)
	if c.TLS.enabled() {
		if a.certs, err = newCertificates(c.TLS); err != nil {
			return nil, err
		}
	}
	auth, err := newAuthenticator(c.Auth)
	a.auth.Store(auth)
	return a, err
}

// authenticator is the one in force; nil: clients need no token.
func (a *access) authenticator() *Authenticator {
	if a == nil {
		return nil
	}
	return a.auth.Load()
}

// check returns the client of a request, if it may connect now. Its connection may be older than the certificates for clients, and a check
// that has to ask the issuer of tokens may take longer than the settings are in force with which it has begun.
func (a *access) check(r *http.Request, log *slog.Logger) (Client, error) {
	if a != nil && !a.certs.accepts(r.TLS) {
		return Client{}, &Refusal{Reason: noCertificate, Text: "the client's certificate is not accepted any more"}
	}
	for {
		auth := a.authenticator()
		c, err := auth.checkWith(r, log)
		if auth == a.authenticator() {
			return c, err
		}
	}
}
