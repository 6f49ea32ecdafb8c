package listen

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/metrics"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// measured serves a listener, and returns what it has counted when it has ended. It waits for lines that come after a client knows its fate.
func measured(t *testing.T, cfg Config, use func(l *Listener), until ...string) string {
	t.Helper()
	l := open(t, cfg)
	conns := NewConnections(1, nil, nil)
	var set metrics.Set
	conns.Measure(&set)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { // the end of this function waits for it
		served <- l.Serve(ctx, Handler{
			Serve:    func(ctx context.Context, stream *rpc.WebSocket, _ Client) { stream.Drain() },
			Stopping: &rpc.CloseError{Code: rpc.CloseGoingAway, Reason: "end"}, Connections: conns, Pages: []Page{Metrics(set.Write)},
		})
	}()
	use(l)
	text := func() string {
		var b strings.Builder
		set.Write(&b)
		return b.String()
	}
	for _, line := range until {
		for deadline := time.Now().Add(hang.Limit); !strings.Contains(text(), line+"\n"); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no line %s in\n%s", line, text())
			}
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	return text()
}

// Each outcome of a connection, and each reason for a refusal, is counted.
func TestMeasure(t *testing.T) {
	t.Parallel()
	cfg := Config{Auth: AuthConfig{Signed: &SignedTokens{SecretFile: secretFile(t, testSecret), Issuer: "me"}}, Console: &console.Config{}}
	text := measured(t, cfg, func(l *Listener) {
		ask := func(path, headers string) {
			t.Helper()
			conn, in := rawDial(t, l)
			defer conn.Close()
			io.WriteString(conn, "GET "+path+" HTTP/1.1\r\n"+headers+"\r\n")
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode == http.StatusSwitchingProtocols { // it is served until this end closes it, or closed as one too many
				return
			}
			io.Copy(io.Discard, answer.Body)
		}
		bearer := func(claims string) string {
			return upgradeHeaders + "Authorization: Bearer " + signParts(t, `{"alg":"HS256"}`, claims) + "\r\n"
		}
		ask("/", upgradeHeaders)
		ask("/", upgradeHeaders+"Authorization: Bearer x\r\n")
		ask("/metrics", "Host: x\r\nAuthorization: Bearer x\r\n")
		ask("/", bearer(`{"exp":1}`))
		ask("/", bearer(`{"exp":99999999999,"iss":"you"}`))
		ask("/", upgradeHeaders+"Origin: http://x\r\n")
		ask("/", without("Upgrade", ""))
		ask("/console/", "Host: evil.example\r\n")
		ask("/console/socket", upgradeHeaders[len("Host: x\r\n"):]+"Host: "+l.Addr().String()+"\r\nOrigin: http://"+l.Addr().String()+"\r\n")
		ask("/", bearer(`{"exp":99999999999,"iss":"me"}`))
	})
	for _, want := range []string{
		`tether_refusals_total{reason="missing"} 1`, `tether_refusals_total{reason="invalid"} 2`, `tether_refusals_total{reason="expired"} 1`,
		`tether_refusals_total{reason="claims"} 1`, `tether_refusals_total{reason="origin"} 1`, `tether_refusals_total{reason="consoleHost"} 1`,
		`tether_refusals_total{reason="consoleLogin"} 1`,
		`tether_connections_total{listener="ws",outcome="served"} 1`, `tether_connections_total{listener="ws",outcome="refused"} 6`,
		`tether_connections_total{listener="ws",outcome="malformed"} 1`, `tether_connections_total{listener="console",outcome="refused"} 2`,
		"tether_connections 0",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if t.Failed() || strings.Contains(text, `"other"`) {
		t.Errorf("metrics:\n%s", text)
	}
}

func rawDial(t *testing.T, l *Listener) (io.ReadWriteCloser, *bufio.Reader) {
	t.Helper()
	s := testUpgrader{l: l}
	conn := s.dial(t)
	return conn, bufio.NewReader(conn)
}

// A client whose certificate is missing or unknown never gets as far as a request.
func TestMeasureCertificates(t *testing.T) {
	t.Parallel()
	ca, server := newAuthority(t), newIdentity(t, "server")
	measured(t, Config{URL: "wss://127.0.0.1:0", TLS: TLSConfig{server.certFile, server.keyFile, ca.file}}, func(l *Listener) {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: server.pool})
		if err == nil {
			conn.SetDeadline(time.Now().Add(time.Minute))
			if _, err = conn.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("a client without a certificate: %v", err)
			}
			conn.Close()
		}
		raw, in := rawDial(t, l)
		io.WriteString(raw, "GET / HTTP/1.1\r\n\r\n")
		io.Copy(io.Discard, in) // until the server ends it
	}, `tether_refusals_total{reason="certificate"} 1`, `tether_connections_total{listener="wss",outcome="refused"} 1`,
		`tether_connections_total{listener="wss",outcome="malformed"} 1`)
}
