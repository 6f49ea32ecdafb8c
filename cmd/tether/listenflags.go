package main

import (
	"io"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/listen"
)

// listenFlags say where a server listens, and who may connect. They are the same for every kind of server.
type listenFlags struct {
	cfg      listen.Config
	authMode choice
}

// config turns the flags into a Config. It warns about secret files that other users can read.
func (f *listenFlags) config(stderr io.Writer) (listen.Config, error) {
	cfg := f.cfg
	cfg.Auth.Mode = f.authMode.value
	for _, path := range []*string{cfg.Auth.TokenFile, cfg.Auth.SharedSecretFile, &cfg.TLS.KeyFile} {
		if path != nil && *path != "" {
			warnReadable(stderr, *path)
		}
	}
	return cfg, cfg.Validate()
}

// define adds the flags, but for --listen.
func (f *listenFlags) define(fs *pflag.FlagSet) {
	fs.BoolVar(&f.cfg.InsecureNoAuth, "insecure-no-auth", false, "allow an address that other machines can reach without\nauthentication: whoever reaches it can run commands")
	group(fs, "Where to listen", "insecure-no-auth")

	cfg := &f.cfg
	auth := &cfg.Auth
	f.authMode = choice{"", "MODE", []string{listen.AuthCapabilityToken, listen.AuthSignedBearerToken}}
	fs.Var(&f.authMode, "ws-auth", "how clients authenticate: capability-token (one shared token)\nor signed-bearer-token (an HS256 JWT)")
	fs.Var(&optional{&auth.TokenFile, "PATH", true}, "ws-token-file", "file with the capability token")
	fs.Var(&optional{&auth.TokenSHA256, "HEX", false}, "ws-token-sha256", "SHA-256 digest of the capability token, instead of the file")
	fs.Var(&optional{&auth.SharedSecretFile, "PATH", true}, "ws-shared-secret-file", "file with the key of signed tokens, at least 32 bytes")
	fs.Var(&optional{&auth.Issuer, "ISSUER", false}, "ws-issuer", "issuer that signed tokens must name")
	fs.Var(&optional{&auth.Audience, "AUDIENCE", false}, "ws-audience", "audience that signed tokens must name")
	fs.Var(&optionalSeconds{&auth.MaxClockSkewSeconds}, "ws-max-clock-skew-seconds", "how far clocks may differ for signed tokens (default 30)")
	group(fs, "Who may connect", "ws-auth", "ws-token-file", "ws-token-sha256", "ws-shared-secret-file", "ws-issuer", "ws-audience", "ws-max-clock-skew-seconds")

	fs.StringVar(&cfg.TLS.CertFile, "tls-cert", "", "`PATH` of the server's certificate and chain (PEM), for wss://")
	fs.StringVar(&cfg.TLS.KeyFile, "tls-key", "", "`PATH` of its private key (PEM)")
	fs.StringVar(&cfg.TLS.ClientCAFile, "tls-client-ca", "", "`PATH` of certificates (PEM); clients must show one signed by them")
	fs.BoolVar(&cfg.AnyNamespace, "any-namespace", false, "for unix://: accept clients in other containers and sandboxes (in\nanother pid or user namespace); confined commands that can see the\nsocket can then run commands outside of their sandbox")
	group(fs, "Who may connect", "tls-cert", "tls-key", "tls-client-ca", "any-namespace")
}
