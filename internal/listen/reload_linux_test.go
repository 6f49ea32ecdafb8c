package listen

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A reload does not wait for a pipe, which was read when the server was started.
func TestReloadOfPipes(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	server := newIdentity(t, "server")
	s := startTLS(t, TLSConfig{server.certFile, server.keyFile, ""})
	_, err := s.l.ReloadTokens(AuthConfig{Token: &CapabilityToken{File: pipe}})
	_, err2 := s.l.ReloadCertificates(TLSConfig{pipe, server.keyFile, ""})
	for _, err := range []error{err, err2} {
		if !strings.Contains(errText(err), "not a regular file") {
			t.Errorf("got %v", err)
		}
	}
	if !s.meets(t, server, nil) {
		t.Error("the certificate is not served any more")
	}
}
