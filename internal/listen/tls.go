package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSConfig names the PEM files for a `wss://` endpoint. The zero value is no TLS.
type TLSConfig struct {
	CertFile     string // certificate of the server, with its chain
	KeyFile      string // private key of CertFile
	ClientCAFile string // if set, clients must present a certificate signed by one of these
}

// Enabled says whether any file is named.
func (c TLSConfig) Enabled() bool { return c != TLSConfig{} }

// Validate checks that what belongs together is there. It reads no file.
func (c TLSConfig) Validate() error {
	switch {
	case !c.Enabled():
		return nil
	case c.CertFile == "" && c.KeyFile == "":
		return errors.New("`--tls-client-ca` requires `--tls-cert` and `--tls-key`")
	case c.CertFile == "":
		return errors.New("`--tls-key` requires `--tls-cert`")
	case c.KeyFile == "":
		return errors.New("`--tls-cert` requires `--tls-key`")
	}
	return nil
}

// Load reads the files. HTTP/2 is not offered: a WebSocket upgrade needs 1.1.
func (c TLSConfig) Load() (*tls.Config, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	certPEM, err := readPEM("--tls-cert", c.CertFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readPEM("--tls-key", c.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("`--tls-cert` %s and `--tls-key` %s cannot be used: %w", c.CertFile, c.KeyFile, err)
	}
	conf := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"http/1.1"},
	}
	if c.ClientCAFile != "" {
		caPEM, err := readPEM("--tls-client-ca", c.ClientCAFile)
		if err != nil {
			return nil, err
		}
		conf.ClientCAs = x509.NewCertPool()
		if !conf.ClientCAs.AppendCertsFromPEM(caPEM) {
			return nil, fmt.Errorf("`--tls-client-ca` %s holds no PEM certificate", c.ClientCAFile)
		}
		conf.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return conf, nil
}

func readPEM(flag, path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read `%s` %s: %w", flag, path, cause(err))
	}
	return content, nil
}
