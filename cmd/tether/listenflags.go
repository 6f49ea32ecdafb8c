package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/service"
)

// consoleFlags say whether browsers may use a server, and how.
type consoleFlags struct {
	off, readOnly bool
	origins       []string
}

func (f *consoleFlags) define(fs *pflag.FlagSet) {
	fs.BoolVar(&f.off, "no-console", false, "let no browser in: without it, /console is a page for people whom a\nclient lets in with \"tether console\"")
	fs.BoolVar(&f.readOnly, "console-read-only", false, "browsers may only watch and search")
	fs.StringArrayVar(&f.origins, "console-origin", nil, "`URL` under which browsers reach the console, if it is neither an address nor\nlocalhost: https://NAME[:PORT]. Can be repeated")
	group(fs, "Console", "no-console", "console-read-only", "console-origin")
}

// config returns nil if browsers may not use the server.
func (f *consoleFlags) config() (*console.Config, error) {
	if f.off && (f.readOnly || len(f.origins) > 0) {
		return nil, errors.New("`--console-read-only` and `--console-origin` exclude `--no-console`")
	}
	if f.off {
		return nil, nil
	}
	c := &console.Config{Files: consoleFiles, ReadOnly: f.readOnly}
	for _, origin := range f.origins {
		origin = strings.TrimSuffix(origin, "/")
		if err := console.CheckOrigin(origin); err != nil {
			return nil, fmt.Errorf("`--console-origin` %w", err)
		}
		c.Origins = append(c.Origins, origin)
	}
	return c, nil
}

// listenFlags say where a server listens and which clients may connect. They are the same for every kind of server.
type listenFlags struct {
	cfg  listen.Config // without the authentication
	auth authFlags
}

// isStdio reports whether the server has only one client, on standard input and output.
func (f *listenFlags) isStdio() bool {
	endpoint, err := listen.ParseURL(f.cfg.URL)
	return err == nil && endpoint.Transport == listen.Stdio
}

// define adds the flags, except --listen.
func (f *listenFlags) define(fs *pflag.FlagSet) {
	cfg := &f.cfg
	fs.BoolVar(&cfg.InsecureNoAuth, "insecure-no-auth", false, "allow an address that other machines can reach without\nauthentication: every client that reaches it can run commands")
	group(fs, "Where to listen", "insecure-no-auth")
	f.auth.define(fs)
	fs.StringVar(&cfg.TLS.CertFile, "tls-cert", "", "`PATH` of the server's certificate and chain (PEM), for wss://")
	fs.StringVar(&cfg.TLS.KeyFile, "tls-key", "", "`PATH` of its private key (PEM)")
	fs.StringVar(&cfg.TLS.ClientCAFile, "tls-client-ca", "", "`PATH` of certificates (PEM); clients must show one signed by them")
	fs.BoolVar(&cfg.AnyNamespace, "any-namespace", false, "for unix://: accept clients in other containers and sandboxes (in\nanother pid or user namespace); confined commands that can see the\nsocket can then run commands outside their sandbox")
	group(fs, "Authentication and access", "tls-cert", "tls-key", "tls-client-ca", "any-namespace")
}

// config turns the flags into a Config. It warns about secret files that other users can read.
func (f *listenFlags) config(stderr io.Writer) (cfg listen.Config, err error) {
	cfg = f.cfg
	cfg.NamespaceHint = ", or start the server with --any-namespace"
	if cfg.Auth, err = f.auth.config(); err != nil {
		return cfg, err
	}
	if err := checkTLSFlags(cfg.TLS); err != nil {
		return cfg, err
	}
	if _, err := listen.ParseURL(cfg.URL); err != nil { // also an empty URL, for which listen would use its default
		return cfg, withListenFlags(cfg, err)
	}
	for _, path := range cfg.SecretFiles() {
		warnReadable(stderr, path)
	}
	return cfg, withListenFlags(cfg, cfg.Validate())
}

func checkTLSFlags(files listen.TLSConfig) error {
	switch {
	case files == listen.TLSConfig{} || files.CertFile != "" && files.KeyFile != "":
		return nil
	case files.CertFile != "":
		return errors.New("`--tls-cert` requires `--tls-key`")
	case files.KeyFile != "":
		return errors.New("`--tls-key` requires `--tls-cert`")
	}
	return errors.New("`--tls-client-ca` requires `--tls-cert` and `--tls-key`")
}

// openListener opens the listener of the flags. It returns nil for stdio: then the only client is on standard input and output.
func openListener(ctx context.Context, cfg listen.Config) (*listen.Listener, error) {
	if endpoint, err := listen.ParseURL(cfg.URL); err == nil && endpoint.Transport == listen.Stdio {
		return nil, nil
	}
	l, err := listen.Open(ctx, cfg)
	return l, withListenFlags(cfg, err)
}

// withListenFlags names the flags in an error about a listener.
func withListenFlags(cfg listen.Config, err error) error {
	if bad, ok := errors.AsType[*listen.URLError](err); ok {
		return fmt.Errorf("%s --listen URL `%s`; expected %s", bad.Problem, bad.URL, bad.Expected)
	}
	switch {
	case errors.Is(err, listen.ErrNoTLS):
		return fmt.Errorf("--listen URL `%s` requires `--tls-cert` and `--tls-key`", cfg.URL)
	case errors.Is(err, listen.ErrUnusedTLS):
		return fmt.Errorf("TLS flags require a `wss://IP:PORT` --listen URL, not `%s`", cfg.URL)
	case errors.Is(err, service.ErrNoSocket):
		return fmt.Errorf("`--listen %s`: %w. It is for servers that are started by a systemd socket unit, such as the one of `tether service install`", cfg.URL, err)
	case errors.Is(err, listen.ErrOpenSocket):
		return fmt.Errorf("%w. Set SocketMode=0600 (or 0660 with SocketGroup=) in the socket unit, add `--ws-auth`, or accept the risk with `--insecure-no-auth`", err)
	case errors.Is(err, listen.ErrExposed):
		return fmt.Errorf("%w. Add `--ws-auth` (or `--tls-client-ca`), listen on 127.0.0.1 or `unix://PATH`, or accept the risk with `--insecure-no-auth`", err)
	}
	if bad, ok := errors.AsType[*fs.PathError](err); ok && bad.Path != "" {
		switch bad.Path {
		case cfg.TLS.CertFile:
			return fmt.Errorf("cannot read `--tls-cert` %s: %w", bad.Path, bad.Err)
		case cfg.TLS.KeyFile:
			return fmt.Errorf("cannot read `--tls-key` %s: %w", bad.Path, bad.Err)
		case cfg.TLS.ClientCAFile:
			return fmt.Errorf("cannot read `--tls-client-ca` %s: %w", bad.Path, bad.Err)
		}
	}
	return err
}

// Values of --ws-auth.
const (
	authCapabilityToken   = "capability-token"    // one shared token
	authSignedBearerToken = "signed-bearer-token" // an HS256 JWT, signed with a shared secret
)

// authFlags say how clients authenticate. A nil pointer is a flag that was not given, which is not the same as one that was
// given empty: a flag of the other mode is refused even if it is empty.
type authFlags struct {
	mode choice

	tokenFile, tokenSHA256       *string // capability token
	secretFile, issuer, audience *string // signed bearer token
	clockSkew                    *uint64

	oidc oidcFlags // of the commands that define them
}

func (f *authFlags) define(fs *pflag.FlagSet) {
	f.mode = choice{"", "MODE", []string{authCapabilityToken, authSignedBearerToken}}
	fs.Var(&f.mode, "ws-auth", "how clients authenticate: capability-token (one shared token)\nor signed-bearer-token (an HS256 JWT)")
	fs.Var(&optional{&f.tokenFile, "PATH", true}, "ws-token-file", "file with the capability token")
	fs.Var(&optional{&f.tokenSHA256, "HEX", false}, "ws-token-sha256", "SHA-256 digest of the capability token, instead of the file")
	fs.Var(&optional{&f.secretFile, "PATH", true}, "ws-shared-secret-file", "file with the key of signed tokens, at least 32 bytes")
	fs.Var(&optional{&f.issuer, "ISSUER", false}, "ws-issuer", "issuer that signed tokens must name")
	fs.Var(&optional{&f.audience, "AUDIENCE", false}, "ws-audience", "audience that signed tokens must name")
	fs.Var(&optionalSeconds{&f.clockSkew}, "ws-max-clock-skew-seconds", "how far clocks may differ for signed tokens (default 30)")
	group(fs, "Authentication and access", "ws-auth", "ws-token-file", "ws-token-sha256", "ws-shared-secret-file", "ws-issuer", "ws-audience", "ws-max-clock-skew-seconds")
}

// config turns the flags into a Config, after checks that they fit each other. It reads no file.
func (f *authFlags) config() (auth listen.AuthConfig, err error) {
	issuer, err := f.oidc.check()
	if err != nil {
		return auth, err
	}
	token := f.tokenFile != nil || f.tokenSHA256 != nil
	signed := f.secretFile != nil || f.issuer != nil || f.audience != nil || f.clockSkew != nil
	switch {
	case issuer && (f.mode.value != "" || token || f.secretFile != nil || f.issuer != nil || f.audience != nil):
		return auth, errors.New("`--oidc-issuer` excludes `--ws-auth` and its flags, except `--ws-max-clock-skew-seconds`: clients have one kind of tokens")
	case issuer:
		var skew int64
		if skew, err = f.skew(); err == nil {
			auth.Other, err = f.oidc.tokens(skew)
		}
	case f.mode.value == "" && (token || signed):
		return auth, errors.New("websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`")
	case f.mode.value == authCapabilityToken && signed:
		return auth, errors.New("`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`")
	case f.mode.value == authSignedBearerToken && token:
		return auth, errors.New("`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not `signed-bearer-token`")
	case f.mode.value == authCapabilityToken:
		auth.Token, err = f.token()
	case f.mode.value == authSignedBearerToken:
		auth.Signed, err = f.signed()
	}
	return auth, err
}

func (f *authFlags) token() (*listen.CapabilityToken, error) {
	switch {
	case f.tokenFile != nil && f.tokenSHA256 != nil:
		return nil, errors.New("`--ws-token-file` and `--ws-token-sha256` are mutually exclusive")
	case f.tokenFile != nil:
		return &listen.CapabilityToken{File: *f.tokenFile}, nil
	case f.tokenSHA256 == nil:
		return nil, errors.New("`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set")
	}
	var token listen.CapabilityToken
	digest, err := hex.DecodeString(strings.TrimSpace(*f.tokenSHA256))
	if err != nil || len(digest) != len(token.SHA256) {
		return nil, errors.New("--ws-token-sha256 must be a 64-character hex SHA-256 digest")
	}
	copy(token.SHA256[:], digest)
	return &token, nil
}

func (f *authFlags) signed() (*listen.SignedTokens, error) {
	if f.secretFile == nil {
		return nil, errors.New("`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set")
	}
	skew, err := f.skew()
	s := &listen.SignedTokens{SecretFile: *f.secretFile, ClockSkew: skew}
	if f.issuer != nil {
		s.Issuer = *f.issuer
	}
	if f.audience != nil {
		s.Audience = *f.audience
	}
	return s, err
}

// skew is how many seconds the clocks of this machine and of the issuer of tokens may differ.
func (f *authFlags) skew() (int64, error) {
	switch {
	case f.clockSkew == nil:
		return listen.DefaultClockSkew, nil
	case *f.clockSkew > math.MaxInt64:
		return 0, errors.New("websocket auth clock skew must fit in a signed 64-bit integer")
	}
	return int64(*f.clockSkew), nil
}
