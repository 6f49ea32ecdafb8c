package listen

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tetherexec/tether/internal/console"
)

// Config says where to listen, and which clients to accept. The zero value is a free port of the
// loopback address.
type Config struct {
	URL            string     // as for ParseURL; "": DefaultURL
	Auth           AuthConfig // the zero value accepts every client
	TLS            TLSConfig
	InsecureNoAuth bool // listen for other machines without authentication
	AnyNamespace   bool // a Unix socket accepts clients in other containers and sandboxes, too

	// NamespaceHint is appended to the refusal of a client in another container or sandbox. The program that has
	// a flag for AnyNamespace names it here.
	NamespaceHint string

	Console *console.Config // lets browsers in; nil: it does not
}

// Validate checks that the settings are possible and consistent. It touches nothing
// outside c.
func (c Config) Validate() error {
	_, err := c.endpoint()
	return err
}

// Errors about a Config as a whole.
var (
	ErrListening = errors.New("another server is listening there")
	ErrNoTLS     = errors.New("a wss:// URL needs a certificate and its private key")
	ErrUnusedTLS = errors.New("TLS needs a wss:// URL")
	ErrExposed   = errors.New("without authentication: every program that can reach it could run commands on this machine")
)

// endpoint returns where to listen, after the checks of which clients may connect.
func (c Config) endpoint() (Endpoint, error) {
	if err := c.Auth.validate(); err != nil {
		return Endpoint{}, err
	}
	if err := c.TLS.validate(); err != nil {
		return Endpoint{}, err
	}
	if c.Console != nil {
		if err := c.Console.Validate(); err != nil {
			return Endpoint{}, err
		}
	}
	url := cmp.Or(c.URL, DefaultURL)
	e, err := ParseURL(url)
	if err != nil || e.Transport == Activated { // which socket it is will be known when it is taken
		return e, err
	}
	return e, c.check(e, url)
}

// check checks which clients may connect to an endpoint, which errors call url.
func (c Config) check(e Endpoint, url string) error {
	switch {
	case e.Transport == Stdio && c.Auth.enabled():
		return errors.New("WebSocket auth requires a WebSocket listener, not stdio")
	case e.TLS && !c.TLS.enabled():
		return ErrNoTLS
	case !e.TLS && c.TLS.enabled():
		return ErrUnusedTLS
	case e.Exposed() && !c.Auth.enabled() && c.TLS.ClientCAFile == "" && !c.InsecureNoAuth:
		return fmt.Errorf("refusing to listen on `%s` %w", url, ErrExposed)
	}
	return nil
}

// SecretFiles returns the files of the Config that only this user should be able to read.
func (c Config) SecretFiles() []string {
	var names []string
	if c.Auth.Token != nil && c.Auth.Token.File != "" {
		names = append(names, c.Auth.Token.File)
	}
	if c.Auth.Signed != nil {
		names = append(names, c.Auth.Signed.SecretFile)
	}
	if c.TLS.KeyFile != "" {
		names = append(names, c.TLS.KeyFile)
	}
	return names
}

// Files returns all files of the Config that are read.
func (c Config) Files() []string {
	names := c.SecretFiles()
	for _, name := range []string{c.TLS.CertFile, c.TLS.ClientCAFile} {
		if name != "" {
			names = append(names, name)
		}
	}
	if c.Auth.Other != nil {
		names = append(names, c.Auth.Other.Files()...)
	}
	return names
}

// Private returns the paths that no confined command may see, because with them it could become a
// client.
func (c Config) Private() []string {
	names := c.SecretFiles()
	if e, err := ParseURL(c.URL); err == nil && e.Path != "" {
		names = append(names, e.Path)
	}
	var paths []string
	for _, name := range names {
		if path, err := filepath.Abs(name); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}
