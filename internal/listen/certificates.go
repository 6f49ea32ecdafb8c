package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/wire"
)

// lookInterval is how often, at most, a client that connects causes a look at the files of the certificates.
const lookInterval = time.Second

// certificates are those with which a listener meets its clients. They are replaced when their files change, as a whole: files that do not
// fit each other change nothing.
type certificates struct {
	changed func(loaded wire.ReloadedSettings, clients bool) // is told when files have changed; clients: those for clients were replaced

	swap     sync.Mutex // guards the next two fields
	current  *loaded
	replaced bool // those for clients are not the first ones

	mu     sync.Mutex // guards the fields below; held while files are read
	config TLSConfig
	files  [3]fileState // as they were before they were read the last time
	looked time.Time
}

// newCertificates reads the files.
func newCertificates(c TLSConfig) (certs *certificates, err error) {
	certs = &certificates{config: c, files: c.stat(), looked: time.Now()}
	certs.current, err = c.load()
	return certs, err
}

// A fileState tells whether a file has changed. Its zero value is a file that is missing.
type fileState struct{ size, modified int64 }

// stat describes the files.
func (c TLSConfig) stat() (files [3]fileState) {
	for i, name := range [...]string{c.CertFile, c.KeyFile, c.ClientCAFile} {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() { // "" does not exist
			files[i] = fileState{info.Size(), info.ModTime().UnixNano()}
		}
	}
	return files
}

// serverConfig lets each client meet the certificates that are in force when it connects.
func (c *certificates) serverConfig() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c.look()
		current, _ := c.now()
		return current.Config, nil
	}}
}

// now returns the certificates in force, and whether those for clients are not the first ones.
func (c *certificates) now() (*loaded, bool) {
	c.swap.Lock()
	defer c.swap.Unlock()
	return c.current, c.replaced
}

// look reads the files again if one has changed. It does not wait for another goroutine that looks.
func (c *certificates) look() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < lookInterval {
		return
	}
	c.looked = now
	if c.files == c.config.stat() {
		return
	}
	changed, clients, err := c.loadLocked(c.config)
	c.changed(Reloaded(wire.SettingsCertificates, changed, err), clients)
}

// loadLocked replaces the certificates, unless the files have the same content or cannot be used.
func (c *certificates) loadLocked(config TLSConfig) (changed, clients bool, err error) {
	files := config.stat()
	var next *loaded
	err = onlyRegular(config.CertFile, config.KeyFile, config.ClientCAFile)
	if err == nil {
		next, err = config.load()
	}
	if config == c.config {
		c.files = files // also if they cannot be used: that is reported once
	}
	if err != nil {
		return false, false, err
	}
	old, _ := c.now()
	c.config, c.files = config, files
	clients = next.clients != old.clients
	if changed = clients || next.own != old.own; !changed {
		return false, false, nil
	}
	c.swap.Lock()
	defer c.swap.Unlock()
	c.current, c.replaced = next, c.replaced || clients
	return changed, clients, nil
}

// accepts reports whether the certificate that a client has shown when it connected would be accepted now.
func (c *certificates) accepts(state *tls.ConnectionState) bool {
	if c == nil {
		return true
	}
	now, replaced := c.now()
	if !replaced {
		return true
	}
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: now.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// ReloadCertificates reads the certificates again. Clients that connect from its return on meet the new ones, and need a certificate that these
// accept; connections live on. If it fails, nothing changes. It can ask for certificates of clients from now on, and does not stop to ask.
func (l *Listener) ReloadCertificates(config TLSConfig) (changed bool, err error) {
	if err := config.validate(); err != nil {
		return false, err
	}
	c := l.access.certs
	if config.enabled() != (c != nil) {
		return false, errors.New("to begin or end the use of TLS needs a restart")
	}
	if c == nil {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if config.ClientCAFile == "" && c.config.ClientCAFile != "" {
		return false, errors.New("clients would need no certificate any more: that needs a restart")
	}
	changed, clients, err := c.loadLocked(config)
	if clients {
		l.forgetBrowsers()
	}
	return changed, err
}
