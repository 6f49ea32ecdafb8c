package listen

import (
	"errors"
	"fmt"
	"os"

	"github.com/tetherexec/tether/wire"
)

// ReloadTokens reads the secrets that c names again. From its return on, new clients need the new ones; connections live on. If it fails,
// nothing changes. It can let clients authenticate from now on, or in another way, and never without a token: a setting that is missing by mistake must
// not open a server.
func (l *Listener) ReloadTokens(c AuthConfig) (changed bool, err error) {
	err = c.validate()
	if err == nil {
		err = onlyRegular(Config{Auth: c}.Files()...)
	}
	if err != nil {
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
	l.access.mu.Lock()
	l.access.auth = next
	l.access.mu.Unlock()
	l.forgetBrowsers()
	return true, nil
}

// onlyRegular refuses pipes and the like: what they had was read when the server was started, and reading them again would wait.
func onlyRegular(names ...string) error {
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file: it cannot be read again", name)
		}
	}
	return nil
}

// forgetBrowsers ends the logins of browsers: a client whose token may not be valid any more has let them in.
func (l *Listener) forgetBrowsers() {
	if l.Console != nil {
		l.Console.Forget()
	}
}

// Reloaded says what has become of settings that were read again.
func Reloaded(kind string, changed bool, err error) wire.ReloadedSettings {
	s := wire.ReloadedSettings{Kind: kind, Changed: changed}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

// Report passes on what has become of settings that were read again. The handler must not wait.
func (l *Listener) Report(settings ...wire.ReloadedSettings) {
	l.access.mu.Lock()
	report := l.access.report
	l.access.mu.Unlock()
	if report != nil {
		report(settings)
	}
}
