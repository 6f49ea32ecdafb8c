package listen

import (
	"errors"

	"github.com/tetherexec/tether/wire"
)

// ReloadTokens reads the secrets that c names again. From its return on, new clients need the new ones; connections live on. If it fails,
// nothing changes. It can let clients authenticate from now on, or in another way, and never without a token: a setting that is missing by mistake must
// not open a server.
func (l *Listener) ReloadTokens(c AuthConfig) (changed bool, err error) {
	if err := c.validate(); err != nil {
		return false, err
	}
	next, err := newAuthenticator(c)
	old := l.access.authenticator()
	switch {
	case err != nil:
		return false, err
	case next == nil && old != nil:
		return false, errors.New("clients would need no token any more: that needs a restart")
	case next.equal(old):
		return false, nil
	}
	l.access.auth.Store(next)
	l.forgetBrowsers()
	return true, nil
}

// forgetBrowsers ends the logins of browsers: a client whose token may not be valid any more has let them in.
func (l *Listener) forgetBrowsers() {
	if l.Console != nil {
		l.Console.Forget()
	}
}

// Report passes on what has become of settings that were read again. The handler must not wait.
func (l *Listener) Report(settings ...wire.ReloadedSettings) {
	if report := l.reported.Load(); report != nil {
		(*report)(settings)
	}
}
