package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/wire"
)

// lookInterval is how often, at most, a client that connects causes a look at the files of the certificates.
const lookInterval = time.Second

// certificates are those with which a listener meets its clients. They are replaced when their files change, as a whole: files that do not
// fit each other change nothing.
type certificates struct {
	current  atomic.Pointer[loaded]
	replaced atomic.Bool // those for clients are not the first ones

	changed func(loaded wire.ReloadedSettings, clients bool) // is told when files have changed; clients: those for clients were replaced

	mu     sync.Mutex // guards the fields below; held while files are read
	config TLSConfig
	files  []os.FileInfo // as they were before they were read the last time; nil: a file was missing
	looked time.Time
}

// newCertificates reads the files.
func newCertificates(c TLSConfig) (*certificates, error) {
	certs := &certificates{config: c, files: c.stat(), looked: time.Now()}
	first, err := c.load()
	certs.current.Store(first)
	return certs, err
}

// stat describes the files.
func (c TLSConfig) stat() (files []os.FileInfo) {
	for _, name := range []string{c.CertFile, c.KeyFile, c.ClientCAFile} {
		info, _ := os.Stat(name) // "" does not exist
		files = append(files, info)
	}
	return files
}

// isSame reports whether a file is as it was.
func isSame(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// serverConfig lets each client meet the certificates that are in force when it connects.
func (c *certificates) serverConfig() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c.look()
		return c.current.Load().Config, nil
	}}
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
	if slices.EqualFunc(c.files, c.config.stat(), isSame) {
		return
	}
	changed, clients, err := c.loadLocked(c.config)
	settings := wire.ReloadedSettings{Kind: wire.SettingsCertificates, Changed: changed}
	if err != nil {
		settings.Error = err.Error()
	}
	c.changed(settings, clients)
}

// loadLocked replaces the certificates, unless the files have the same content or cannot be used.
func (c *certificates) loadLocked(config TLSConfig) (changed, clients bool, err error) {
	files := config.stat()
	next, err := config.load()
	if config == c.config {
		c.files = files // also if they cannot be used: that is reported once
	}
	if err != nil {
		return false, false, err
	}
	old := c.current.Load()
	c.config, c.files = config, files
	clients = next.clients != old.clients
	if changed = clients || next.own != old.own; !changed {
		return false, false, nil
	}
	c.current.Store(next)
	if clients {
		c.replaced.Store(true)
	}
	return changed, clients, nil
}

// accepts reports whether the certificate that a client has shown when it connected would be accepted now.
func (c *certificates) accepts(state *tls.ConnectionState) bool {
	if c == nil || !c.replaced.Load() {
		return true
	}
	authorities := c.current.Load().ClientCAs
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
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
