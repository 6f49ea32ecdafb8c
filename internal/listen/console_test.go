package listen

import (
	"bytes"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/console"
)

// With TLS the origin of the page is https and its cookie secure. A browser needs a certificate if clients do, and still is the client that
// has let it in.
func TestConsoleOverTLS(t *testing.T) {
	t.Parallel()
	ca, server := newAuthority(t), newIdentity(t, "server")
	s := startUpgrader(t, Config{URL: "wss://127.0.0.1:0", TLS: TLSConfig{server.certFile, server.keyFile, ca.file}, Console: &console.Config{}}, nil)
	carol := &tls.Config{RootCAs: server.pool, Certificates: []tls.Certificate{ca.issue(t, pkix.Name{CommonName: "carol"})}}
	origin := s.l.PageOrigin()
	if want := "https://" + s.l.Addr().String(); origin != want {
		t.Fatalf("the page is at %s, want %s", origin, want)
	}
	expires := time.Now().Add(time.Hour).Truncate(time.Second)
	code, err := s.l.Console.Code(console.Grant{Principal: "cert:CN=alice", Expires: expires})
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: carol, DisableKeepAlives: true}}
	login := func(origin string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, s.l.PageOrigin()+"/console/login", strings.NewReader(`{"code":"`+code.Text+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/json")
		answer, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	if answer := login("http" + strings.TrimPrefix(origin, "https")); answer.StatusCode != http.StatusForbidden {
		t.Errorf("a page without TLS: %v", answer.Status)
	}
	answer := login(origin)
	var keyed struct{ Key string }
	if err := json.NewDecoder(answer.Body).Decode(&keyed); err != nil || !answer.Cookies()[0].Secure {
		t.Fatalf("%v, %v", answer.Cookies(), err)
	}
	if _, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: server.pool}}}).Get(origin + "/console/"); err == nil {
		t.Error("a browser without a certificate gets the page")
	}
	conn, err := tls.Dial("tcp", s.l.Addr().String(), carol)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	host := strings.Replace(upgradeHeaders, "Host: x\r\n", "Host: "+s.l.Addr().String()+"\r\n", 1)
	c := answer.Cookies()[0]
	io.WriteString(conn, "GET /console/socket?key="+keyed.Key+" HTTP/1.1\r\n"+host+"Origin: "+origin+"\r\nCookie: "+c.Name+"="+c.Value+"\r\n\r\n")
	if head, err := readHead(conn); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") || strings.Contains(head, "Extensions") {
		t.Fatalf("got %q, %v", head, err)
	}
	if got := (<-s.accepted).client; got.Principal != "cert:CN=alice" || !got.Expires.Equal(expires) || got.Query != "" {
		t.Errorf("the browser is served as %+v", got)
	}
}

// A browser that only asks whether it is logged in costs no line of the log, and every line is bounded.
func TestConsoleLog(t *testing.T) {
	var log bytes.Buffer
	s := startUpgrader(t, Config{Console: &console.Config{}}, slog.New(slog.NewTextHandler(&log, nil)))
	address := s.l.Addr().String()
	post := func(body, origin string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, "http://"+address+"/console/login", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%v", answer.Status)
		}
	}
	post(`{"key":"AAAAAAAAAAAAAAAAAAAAAA"}`, "http://"+address)
	post(`{"code":"AAAAAAAAAAAAAAAAAAAAAA"}`, "http://"+strings.Repeat("x", 10_000))
	s.stop()
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "reason=origin") || len(text) > 1000 || strings.Contains(text, "AAAA") {
		t.Errorf("log: %.2000s", text)
	}
}
