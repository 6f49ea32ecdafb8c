package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/pflag"
)

// tlsFlags say which certificates a client trusts, and which it shows, on wss:// connections.
type tlsFlags struct{ ca, cert, key string }

func (f *tlsFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.ca, "tls-ca", "", "`PATH` of certificates (PEM) to trust for a wss:// server, instead of\nthose of this machine")
	fs.StringVar(&f.cert, "tls-cert", "", "`PATH` of the client's certificate (PEM), for a server that asks for one")
	fs.StringVar(&f.key, "tls-key", "", "`PATH` of its private key (PEM)")
}

// config returns nil if no flag was given.
func (f *tlsFlags) config() (*tls.Config, error) {
	switch {
	case *f == tlsFlags{}:
		return nil, nil
	case (f.cert == "") != (f.key == ""):
		return nil, usageError{errors.New("--tls-cert and --tls-key must be given together")}
	}
	config := &tls.Config{}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca %s: %w", f.ca, cause(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca %s: the file has no certificate in PEM form", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", f.cert, f.key, cause(err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// warnReadable warns about a secret file that other users can read.
func warnReadable(stderr io.Writer, path string) {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		printLine(stderr, fmt.Sprintf("warning: other users can read %s; run: chmod 600 %s", path, path))
	}
}
