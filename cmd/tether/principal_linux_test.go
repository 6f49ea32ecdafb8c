package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/certs"
	"github.com/tetherexec/tether/wire"
)

// Workers know which client the sessions of an earlier worker belong to.
func TestPrincipalsSurviveWorkers(t *testing.T) {
	t.Parallel()
	issuer := tethertest.NewIssuer(t)
	s := startKeeper(t, []string{hastyVariable + "=1"}, "--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", issuer.SecretFile)
	dial := func(subject string) *tethertest.Client { return tethertest.DialToken(t, s.url, issuer.Token(subject)) }
	sessions := map[string]tethertest.Hello{}
	for _, subject := range []string{"alice", "bob", ""} {
		c := dial(subject)
		sessions[subject] = c.Handshake("")
		c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
	}
	for range 2 {
		s.killWorker(t)
		for subject, own := range sessions {
			for other, hello := range sessions {
				if other == subject {
					continue
				}
				c := dial(subject)
				if m := c.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID}); m.Error == nil || m.Error.Message != "unknown session id "+hello.SessionID {
					t.Errorf("%q resumes the session of %q: %s", subject, other, m.Raw)
				}
				c.Handshake(own.SessionID)
				params := map[string]any{"sessionId": hello.Tether.PublicID, "processId": "p", "chunk": "eAo=", "writeId": "w-" + subject}
				if m := c.Call(wire.MethodProcessWriteAny, params); m.Error == nil || m.Error.Message != "unknown session id "+hello.Tether.PublicID {
					t.Errorf("%q writes to %q: %s", subject, other, m.Raw)
				}
				var list wire.ListResult
				c.Must(wire.MethodProcessList, map[string]any{"sessionId": nil}, &list)
				if len(list.Processes) != 1 || list.Processes[0].SessionID != own.Tether.PublicID {
					t.Errorf("%q sees %+v", subject, list.Processes)
				}
				c.Close()
			}
		}
	}
}

// Clients with certificates of different subjects do not see each other's sessions. A renewed certificate, with another key, is the same client.
func TestClientCertificatesAreApart(t *testing.T) {
	t.Parallel()
	server, key := certs.New(t, "server")
	pair := func(name string) (conf *tls.Config, pem []byte) {
		cert, key := certs.New(t, name)
		one, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{Certificates: []tls.Certificate{one}, RootCAs: x509.NewCertPool()}, readFile(t, cert)
	}
	alice, alicePEM := pair("alice")
	renewed, renewedPEM := pair("alice")
	bob, bobPEM := pair("bob")
	authorities := filepath.Join(t.TempDir(), "clients.pem")
	if err := os.WriteFile(authorities, bytes.Join([][]byte{alicePEM, renewedPEM, bobPEM}, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	url := startTether(t, "serve", "--listen", "wss://127.0.0.1:0", "--tls-cert", server, "--tls-key", key, "--tls-client-ca", authorities).line(t)
	dial := func(conf *tls.Config) *client.Client {
		conf.RootCAs.AppendCertsFromPEM(readFile(t, server))
		c, err := client.Dial(t.Context(), url, client.Options{TLS: conf, Wait: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial(alice)
	for _, row := range []struct {
		name string
		conf *tls.Config
		want int // sessions, with its own
	}{{"bob", bob, 1}, {"alice with another key", renewed, 2}} {
		list, err := dial(row.conf).Sessions(t.Context())
		if err != nil || len(list) != row.want {
			t.Errorf("%s sees %+v, %v", row.name, list, err)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
