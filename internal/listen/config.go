package listen

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
)

// Config says where to listen, and for whom. The zero value is a free port of the loopback address.
type Config struct {
	URL            string // as for ParseURL; "": DefaultURL
	Auth           AuthConfig
	TLS            TLSConfig
	InsecureNoAuth bool // listen for other machines without authentication
	AnyNamespace   bool // a Unix socket takes clients in other containers and sandboxes, too
}

// Validate checks that the settings are possible and fit each other. It touches
// nothing outside c.
func (c Config) Validate() error {
	_, err := c.endpoint()
	return err
}

// endpoint returns where to listen, after the checks that concern who may
// connect.
func (c Config) endpoint() (Endpoint, error) {
	if err := c.Auth.Validate(); err != nil {
		return Endpoint{}, err
	}
	if err := c.TLS.Validate(); err != nil {
		return Endpoint{}, err
	}
	url := cmp.Or(c.URL, DefaultURL)
	e, err := ParseURL(url)
	if err != nil {
		return e, err
	}
	switch {
	case e.Transport == Stdio && c.Auth.Mode != "":
		return e, errors.New("WebSocket auth requires a WebSocket listener, not stdio")
	case e.TLS && !c.TLS.Enabled():
		return e, fmt.Errorf("--listen URL `%s` requires `--tls-cert` and `--tls-key`", url)
	case !e.TLS && c.TLS.Enabled():
		return e, fmt.Errorf("TLS flags require a `wss://IP:PORT` --listen URL, not `%s`", url)
	case e.Exposed() && c.Auth.Mode == "" && c.TLS.ClientCAFile == "" && !c.InsecureNoAuth:
		return e, fmt.Errorf("refusing to listen on `%s` without authentication: whoever can reach it can run commands on this machine. "+
			"Add `--ws-auth` (or `--tls-client-ca`), listen on 127.0.0.1 or `unix://PATH`, or accept the risk with `--insecure-no-auth`", url)
	}
	return e, nil
}

// Private returns the paths that no confined command may see: with one of them it could become a client.
func (c Config) Private() []string {
	var socket string
	if e, err := ParseURL(c.URL); err == nil {
		socket = e.Path
	}
	var paths []string
	for _, name := range []*string{&socket, c.Auth.TokenFile, c.Auth.SharedSecretFile, &c.TLS.KeyFile} {
		if name == nil || *name == "" {
			continue
		}
		if absolute, err := filepath.Abs(*name); err == nil {
			paths = append(paths, absolute)
		}
	}
	return paths
}
