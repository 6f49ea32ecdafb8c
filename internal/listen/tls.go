package listen

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
)

// TLSConfig names the PEM files for a `wss://` endpoint. The zero value is no TLS.
type TLSConfig struct {
	CertFile     string // certificate of the server, with its chain
	KeyFile      string // private key of CertFile
	ClientCAFile string // if set, clients must present a certificate that is signed by one of these
}

// enabled reports whether any file is named.
func (c TLSConfig) enabled() bool { return c != TLSConfig{} }

// validate checks that certificate and key are both named. It reads no file.
func (c TLSConfig) validate() error {
	if c.enabled() && (c.CertFile == "" || c.KeyFile == "") {
		return errors.New("TLS needs a certificate and its private key")
	}
	return nil
}

// loaded is what the files of a TLSConfig have.
type loaded struct {
	*tls.Config
	own, clients [sha256.Size]byte // digests of certificate and key, and of the certificates for clients
}

// load reads the files. HTTP/2 is not offered: a WebSocket upgrade needs HTTP/1.1.
func (c TLSConfig) load() (*loaded, error) {
	certPEM, err := readPEM("the certificate", c.CertFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readPEM("the private key", c.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s and the private key %s cannot be used: %w", c.CertFile, c.KeyFile, err)
	}
	conf := &loaded{own: sha256.Sum256(slices.Concat(certPEM, keyPEM)), Config: &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"http/1.1"},
	}}
	if c.ClientCAFile != "" {
		caPEM, err := readPEM("the certificates for clients", c.ClientCAFile)
		if err != nil {
			return nil, err
		}
		conf.ClientCAs = x509.NewCertPool()
		if !conf.ClientCAs.AppendCertsFromPEM(caPEM) {
			return nil, fmt.Errorf("the file %s for certificates of clients holds no PEM certificate", c.ClientCAFile)
		}
		conf.ClientAuth, conf.clients = tls.RequireAndVerifyClientCert, sha256.Sum256(caPEM)
	}
	return conf, nil
}

// readPEM reads a file. The error wraps a [fs.PathError], which names it.
func readPEM(what, path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return content, nil
}
