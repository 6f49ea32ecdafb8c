package listen

import (
	"log/slog"
	"net/http"
	"sync"

	"github.com/tetherexec/tether/wire"
)

// An access decides which clients may connect. Its parts are replaced as a whole while the listener runs. A nil access lets every client
// connect.
type access struct {
	certs *certificates // nil: no TLS

	mu     sync.Mutex                    // guards the fields below
	auth   *Authenticator                // nil: clients need no token
	report func([]wire.ReloadedSettings) // see Listener.Report; nil: the listener does not serve yet
}

// newAccess reads the secrets and the certificates.
func newAccess(c Config) (a *access, err error) {
	a = new(access)
	if c.TLS.enabled() {
		if a.certs, err = newCertificates(c.TLS); err != nil {
			return nil, err
		}
	}
	a.auth, err = newAuthenticator(c.Auth)
	return a, err
}

// authenticator is the one in force; nil: clients need no token.
func (a *access) authenticator() *Authenticator {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.auth
}

// check returns the client of a request, if it may connect now. Its connection may be older than the certificates for clients, and a check
// that has to ask the issuer of tokens may take longer than the settings are in force with which it has begun.
func (a *access) check(r *http.Request, log *slog.Logger) (Client, error) {
	for {
		auth := a.authenticator()
		c, err := auth.checkWith(r, log)
		switch {
		case a != nil && !a.certs.accepts(r.TLS):
			return Client{}, &Refusal{Reason: noCertificate, Text: "the client's certificate is not accepted any more"}
		case auth == a.authenticator():
			return c, err
		}
	}
}
