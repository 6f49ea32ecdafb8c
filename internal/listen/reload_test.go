package listen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/wire"
)

// put replaces a file, so that a reader finds the old or the new content.
func put(t *testing.T, path string, content []byte) {
	t.Helper()
	other := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(other, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func bearer(token string) string {
	return "GET / HTTP/1.1\r\n" + upgradeHeaders + "Authorization: Bearer " + token + "\r\n\r\n"
}

// New clients need the new token from the moment when it was read. Connections, and tokens that did not change, are left alone.
func TestReloadTokens(t *testing.T) {
	t.Parallel()
	file := secretFile(t, "old")
	auth := AuthConfig{Token: &CapabilityToken{File: file}}
	s := startUpgrader(t, Config{Auth: auth}, nil)
	status := func(token string) int {
		t.Helper()
		answer, _ := s.ask(t, bearer(token))
		return answer.StatusCode
	}
	reload := func(auth AuthConfig, want bool) {
		t.Helper()
		if changed, err := s.l.ReloadTokens(auth); changed != want || err != nil {
			t.Errorf("changed: %v, %v", changed, err)
		}
	}
	first := s.dial(t)
	if _, err := io.WriteString(first, bearer("old")); err != nil {
		t.Fatal(err)
	}
	live := (<-s.accepted).conn
	reload(auth, false)
	put(t, file, []byte("new\n"))
	if old, new := status("old"), status("new"); old != http.StatusSwitchingProtocols || new != http.StatusUnauthorized {
		t.Errorf("before the tokens are read: old %d, new %d", old, new)
	}
	reload(auth, true)
	if old, new := status("old"), status("new"); old != http.StatusUnauthorized || new != http.StatusSwitchingProtocols {
		t.Errorf("after the tokens were read: old %d, new %d", old, new)
	}
	if _, err := live.Write([]byte("x")); err != nil {
		t.Errorf("a connection with the old token: %v", err)
	}
	reload(AuthConfig{Token: &CapabilityToken{SHA256: sha256.Sum256([]byte("other"))}}, true)
	if got := status("other"); got != http.StatusSwitchingProtocols {
		t.Errorf("a token that is known by its digest: %d", got)
	}
}

// Secrets that cannot be used change nothing, and no reload lets clients in without a token.
func TestReloadBadTokens(t *testing.T) {
	t.Parallel()
	s := startUpgrader(t, Config{Auth: AuthConfig{Token: &CapabilityToken{File: secretFile(t, "tok")}}}, nil)
	long := secretFile(t, strings.Repeat("x", maxSecretFile+1))
	for name, auth := range map[string]AuthConfig{
		"no file":      {Token: &CapabilityToken{File: filepath.Join(t.TempDir(), "none")}},
		"a directory":  {Token: &CapabilityToken{File: t.TempDir()}},
		"empty":        {Token: &CapabilityToken{File: secretFile(t, " \n")}},
		"too long":     {Token: &CapabilityToken{File: long}},
		"not text":     {Token: &CapabilityToken{File: secretFile(t, "\xff\xfe")}},
		"too short":    {Signed: &SignedTokens{SecretFile: secretFile(t, testSecret[:minSharedSecret-1])}},
		"clock":        {Signed: &SignedTokens{SecretFile: secretFile(t, testSecret), ClockSkew: -1}},
		"both kinds":   {Token: &CapabilityToken{}, Signed: &SignedTokens{}},
		"no tokens":    {},
		"long secrets": {Signed: &SignedTokens{SecretFile: long}},
	} {
		if changed, err := s.l.ReloadTokens(auth); changed || err == nil {
			t.Errorf("%s: changed: %v, %v", name, changed, err)
		}
		if answer, _ := s.ask(t, bearer("tok")); answer.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("%s: the token that was in force: %s", name, answer.Status)
		}
		if answer, _ := s.ask(t, "GET / HTTP/1.1\r\n"+upgradeHeaders+"\r\n"); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: without a token: %s", name, answer.Status)
		}
	}
	open := startUpgrader(t, Config{}, nil)
	if changed, err := open.l.ReloadTokens(AuthConfig{Token: &CapabilityToken{File: secretFile(t, "tok")}}); !changed || err != nil {
		t.Errorf("a server without tokens gets one: changed: %v, %v", changed, err)
	}
	if answer, _ := open.ask(t, "GET / HTTP/1.1\r\n"+upgradeHeaders+"\r\n"); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", answer.Status)
	}
}

// New tokens end the logins of browsers and the codes for them, and a connection with an earlier token lets no browser in any more.
func TestReloadForgetsBrowsers(t *testing.T) {
	t.Parallel()
	file := secretFile(t, "old")
	auth := AuthConfig{Token: &CapabilityToken{File: file}}
	s := startUpgrader(t, Config{Auth: auth, Console: &console.Config{}}, nil)
	if answer, _ := s.ask(t, bearer("old")); answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(answer.Status)
	}
	early := (<-s.accepted).client
	login := func(code string) (key string, cookie *http.Cookie) {
		t.Helper()
		answer, body := s.ask(t, "POST /console/login HTTP/1.1\r\nHost: "+s.l.Addr().String()+"\r\nOrigin: "+s.l.PageOrigin()+"\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "+
			strconv.Itoa(len(`{"code":""}`)+len(code))+"\r\n\r\n"+`{"code":"`+code+`"}`)
		if answer.StatusCode != http.StatusOK {
			return "", nil
		}
		_, rest, _ := strings.Cut(body, `"key":"`)
		key, _, _ = strings.Cut(rest, `"`)
		return key, answer.Cookies()[0]
	}
	opens := func(key string, cookie *http.Cookie) bool {
		t.Helper()
		answer, _ := s.ask(t, "GET /console/socket?key="+key+" HTTP/1.1\r\n"+strings.Replace(upgradeHeaders, "Host: ", "X-Host: ", 1)+"Host: "+s.l.Addr().String()+"\r\nOrigin: "+s.l.PageOrigin()+"\r\nCookie: "+cookie.Name+"="+cookie.Value+"\r\n\r\n")
		return answer.StatusCode == http.StatusSwitchingProtocols
	}
	code := func(of Client) string {
		t.Helper()
		answer, err := ConsoleCode(s.l.Console, of)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Code
	}
	key, cookie := login(code(early))
	if key == "" || !opens(key, cookie) {
		t.Fatal("a browser cannot log in")
	}
	browser := (<-s.accepted).client
	unused := code(early)
	if _, err := s.l.ReloadTokens(auth); err != nil || !opens(key, cookie) {
		t.Errorf("tokens that are the same: the browser must log in again (%v)", err)
	}
	<-s.accepted
	put(t, file, []byte("new"))
	if changed, err := s.l.ReloadTokens(auth); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if opens(key, cookie) {
		t.Error("a browser that a client with the old token has let in opens another connection")
	}
	if key, _ := login(unused); key != "" {
		t.Error("a code for a client with the old token can be used")
	}
	for name, of := range map[string]Client{"a connection with the old token": early, "a browser that is still connected": browser} {
		if _, err := ConsoleCode(s.l.Console, of); err == nil {
			t.Errorf("%s lets a browser in", name)
		}
	}
	if answer, _ := s.ask(t, bearer("new")); answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(answer.Status)
	}
	if key, _ := login(code((<-s.accepted).client)); key == "" {
		t.Error("a client with the new token cannot let a browser in")
	}
}

// A tlsServer is a listener with TLS, and its reports.
type tlsServer struct {
	*testUpgrader
	files   TLSConfig
	reports chan wire.ReloadedSettings
}

func startTLS(t *testing.T, files TLSConfig) *tlsServer {
	t.Helper()
	s := &tlsServer{startUpgrader(t, Config{URL: "wss://127.0.0.1:0", TLS: files, Console: &console.Config{}}, nil), files, make(chan wire.ReloadedSettings, 10)}
	report := func(settings []wire.ReloadedSettings) { s.reports <- settings[0] }
	s.l.access.mu.Lock()
	s.l.access.report = report
	s.l.access.mu.Unlock()
	return s
}

// lookAgain lets the next client cause a look at the files.
func (s *tlsServer) lookAgain() {
	c := s.l.access.certs
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = time.Time{}
}

// connect connects with a certificate, and returns the connection after the server has accepted that. A client with a cache for sessions of TLS
// may not show its certificate again.
func (s *tlsServer) connect(server identity, client *tls.Certificate, cache tls.ClientSessionCache) (*tls.Conn, error) {
	conf := &tls.Config{RootCAs: server.pool, ClientSessionCache: cache, MaxVersion: tls.VersionTLS12} // in TLS 1.3 the client's part ends before the server has looked at its certificate
	if client != nil {
		conf.Certificates = []tls.Certificate{*client}
	}
	return tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", s.l.Addr().String(), conf)
}

// meets reports whether a new client meets a certificate.
func (s *tlsServer) meets(t *testing.T, server identity, client *tls.Certificate) bool {
	t.Helper()
	s.lookAgain()
	conn, err := s.connect(server, client, nil)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// Certificates are replaced when their files have changed, by the next client that connects. A certificate without its key, or half of one,
// changes nothing, and is reported once.
func TestCertificateFilesChange(t *testing.T) {
	t.Parallel()
	old, next := newIdentity(t, "old"), newIdentity(t, "next")
	s := startTLS(t, TLSConfig{old.certFile, old.keyFile, ""})
	cert, key := content(t, next.certFile), content(t, next.keyFile)
	if !s.meets(t, old, nil) {
		t.Fatal("the first certificate is not served")
	}
	put(t, old.certFile, cert)
	for range 2 {
		if !s.meets(t, old, nil) {
			t.Error("a certificate without its key replaces the one that was served")
		}
	}
	put(t, old.certFile, cert[:len(cert)/2])
	if !s.meets(t, old, nil) {
		t.Error("half a certificate replaces the one that was served")
	}
	if err := os.Remove(old.certFile); err != nil {
		t.Fatal(err)
	}
	if !s.meets(t, old, nil) {
		t.Error("a certificate is not served any more because its file is gone")
	}
	for range 3 {
		if got := <-s.reports; got.Error == "" || got.Changed || got.Kind != wire.SettingsCertificates {
			t.Errorf("reported: %+v", got)
		}
	}
	put(t, old.certFile, cert)
	put(t, old.keyFile, key)
	if !s.meets(t, next, nil) || s.meets(t, old, nil) {
		t.Error("the new certificate is not served")
	}
	if got := <-s.reports; got.Error != "" || !got.Changed {
		t.Errorf("reported: %+v", got)
	}
	select {
	case got := <-s.reports:
		t.Errorf("reported once more: %+v", got)
	default:
	}
}

// A reload is refused if the files do not fit each other, or if TLS or the certificates of clients would not be needed any more.
func TestReloadBadCertificates(t *testing.T) {
	t.Parallel()
	server, client, other := newIdentity(t, "server"), newIdentity(t, "client"), newIdentity(t, "other")
	s := startTLS(t, TLSConfig{server.certFile, server.keyFile, client.certFile})
	for name, files := range map[string]TLSConfig{
		"no TLS":             {},
		"no key":             {CertFile: server.certFile},
		"another key":        {server.certFile, other.keyFile, client.certFile},
		"no authority":       {server.certFile, server.keyFile, ""},
		"authority is junk":  {server.certFile, server.keyFile, secretFile(t, "junk")},
		"authority is empty": {server.certFile, server.keyFile, secretFile(t, "")},
		"no file":            {server.certFile, server.keyFile, server.certFile + "x"},
	} {
		if changed, err := s.l.ReloadCertificates(files); changed || err == nil {
			t.Errorf("%s: changed: %v, %v", name, changed, err)
		}
		if !s.meets(t, server, &client.pair) || s.meets(t, server, nil) {
			t.Errorf("%s: the listener does not serve as before", name)
		}
	}
	if changed, err := s.l.ReloadCertificates(s.files); changed || err != nil {
		t.Errorf("the same files: changed: %v, %v", changed, err)
	}
	if changed, err := s.l.ReloadCertificates(TLSConfig{other.certFile, other.keyFile, client.certFile}); !changed || err != nil {
		t.Errorf("other files: changed: %v, %v", changed, err)
	}
	if !s.meets(t, other, &client.pair) {
		t.Error("the new certificate is not served")
	}
	if plain := open(t, Config{}); true {
		if _, err := plain.ReloadCertificates(s.files); err == nil {
			t.Error("a listener begins to use TLS")
		}
		if changed, err := plain.ReloadCertificates(TLSConfig{}); changed || err != nil {
			t.Errorf("a listener without TLS: changed: %v, %v", changed, err)
		}
	}
}

// After the authority of clients was replaced, a client of the old one is refused, also if it has connected before and asks only now. Logins of
// browsers end, too.
func TestReloadClientAuthority(t *testing.T) {
	t.Parallel()
	server, first, second := newIdentity(t, "server"), newAuthority(t), newAuthority(t)
	old, next := first.issue(t, pkix.Name{CommonName: "old"}), second.issue(t, pkix.Name{CommonName: "next"})
	file := secretFile(t, string(content(t, first.file)))
	s := startTLS(t, TLSConfig{server.certFile, server.keyFile, file})
	epoch := s.l.Console.Epoch()
	var waiting []*tls.Conn
	for range 2 {
		conn, err := s.connect(server, &old, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		waiting = append(waiting, conn)
	}
	ask := func(conn *tls.Conn) int {
		t.Helper()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n"+upgradeHeaders+"\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	cache := tls.NewLRUClientSessionCache(1)
	for _, resumed := range []bool{false, true} {
		conn, err := s.connect(server, &old, cache)
		if err != nil || conn.ConnectionState().DidResume != resumed {
			t.Fatalf("resumed: want %v, %v", resumed, err)
		}
		conn.Close()
	}
	if got := ask(waiting[0]); got != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", got)
	}
	live := <-s.accepted
	put(t, file, bytes.Join([][]byte{content(t, second.file), content(t, server.certFile)}, nil))
	if !s.meets(t, server, &next) || s.meets(t, server, &old) {
		t.Error("the new authority is not in force")
	}
	if conn, err := s.connect(server, &old, cache); err == nil { // its session of TLS is older than the authority
		defer conn.Close()
		if got := ask(conn); got != http.StatusUnauthorized {
			t.Errorf("a client that resumes a session of TLS: status %d", got)
		}
	}
	if got := ask(waiting[1]); got != http.StatusUnauthorized {
		t.Errorf("a client that was accepted before the reload and asks after it: status %d", got)
	}
	if _, err := live.conn.Write([]byte("x")); err != nil {
		t.Errorf("a connection from before the reload: %v", err)
	}
	if s.l.Console.Epoch() == epoch {
		t.Error("browsers need not log in again")
	}
	if got := <-s.reports; !got.Changed {
		t.Errorf("reported: %+v", got)
	}
}

// reloading is a kind of tokens. While one of them is checked, settings are read again.
type reloading struct{ reload func() }

func (*reloading) Validate() error           { return nil }
func (*reloading) Files() []string           { return nil }
func (r *reloading) Open() (Verifier, error) { return r, nil }

func (r *reloading) Verify(context.Context, string, *slog.Logger) (Client, error) {
	r.reload()
	return Client{}, nil
}

// A client whose certificate is not accepted any more when its token was checked is refused.
func TestReloadDuringCheck(t *testing.T) {
	t.Parallel()
	server, first, second := newIdentity(t, "server"), newAuthority(t), newAuthority(t)
	client := first.issue(t, pkix.Name{CommonName: "client"})
	tokens := &reloading{reload: func() {}}
	s := &tlsServer{testUpgrader: startUpgrader(t, Config{URL: "wss://127.0.0.1:0", TLS: TLSConfig{server.certFile, server.keyFile, first.file}, Auth: AuthConfig{Other: tokens}}, nil)}
	for _, want := range []int{http.StatusSwitchingProtocols, http.StatusUnauthorized} {
		conn, err := s.connect(server, &client, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, bearer("tok")); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("status %d, want %d", answer.StatusCode, want)
		}
		tokens.reload = func() {
			if changed, err := s.l.ReloadCertificates(TLSConfig{server.certFile, server.keyFile, second.file}); !changed || err != nil {
				t.Errorf("changed: %v, %v", changed, err)
			}
		}
	}
}
