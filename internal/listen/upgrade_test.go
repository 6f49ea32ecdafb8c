package listen

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const upgradeHeaders = "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// without returns upgradeHeaders with one header replaced or removed.
func without(old, replacement string) string {
	var lines []string
	for line := range strings.Lines(upgradeHeaders) {
		if strings.HasPrefix(line, old+":") {
			line = replacement
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

type acceptedConn struct {
	conn     net.Conn
	buffered string
	client   Client
}

// A testUpgrader is a running upgrader that passes its accepted connections to the
// test.
type testUpgrader struct {
	l        *Listener
	accepted chan acceptedConn
	stop     func() // and waits
	counts   *counts
}

func startUpgrader(t *testing.T, cfg Config, log *slog.Logger) *testUpgrader {
	t.Helper()
	s := &testUpgrader{l: open(t, cfg), accepted: make(chan acceptedConn, 100), counts: new(counts)}
	web := &upgrader{access: s.l.access, console: s.l.Console, via: s.l.via(), counts: s.counts, anyNamespace: cfg.AnyNamespace, hint: cfg.NamespaceHint, log: cmp.Or(log, slog.New(slog.DiscardHandler)), accept: func(conn net.Conn, buffered []byte, client Client) {
		t.Cleanup(func() { conn.Close() })
		s.accepted <- acceptedConn{conn, string(buffered), client}
	}}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- web.serve(ctx, s.l) }()
	s.stop = func() {
		if cancel == nil {
			return
		}
		cancel()
		cancel = nil
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(s.stop)
	return s
}

func (s *testUpgrader) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial(s.l.Addr().Network(), s.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// ask sends raw text and returns the answer.
func (s *testUpgrader) ask(t *testing.T, request string) (*http.Response, string) {
	t.Helper()
	conn := s.dial(t)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, ""
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return resp, string(body)
}

func readHead(r io.Reader) (string, error) {
	var head strings.Builder
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String(), err
		}
	}
}

func TestHTTPAnswers(t *testing.T) {
	s := startUpgrader(t, Config{Auth: AuthConfig{Token: &CapabilityToken{File: secretFile(t, "tok")}}}, nil)
	const (
		plain  = "Host: x\r\n"
		good   = upgradeHeaders + "Authorization: Bearer tok\r\n"
		noConn = "Connection header did not include 'upgrade'"
		noUp   = "`Upgrade` header did not include 'websocket'"
		noVer  = "`Sec-WebSocket-Version` header did not include '13'"
	)
	for _, tt := range []struct {
		request, headers string
		status           int
		body             string
	}{
		{"GET /readyz", plain, 200, ""},
		{"GET /readyz?x=y", plain, 200, ""},
		{"HEAD /readyz", plain, 200, ""},
		{"POST /readyz", plain, 405, ""},
		{"OPTIONS /readyz", plain, 405, ""},
		{"GET /readyz/", plain, 404, ""},
		{"GET /%72eadyz", plain, 404, ""},
		{"GET /metrics", plain, 404, ""},
		{"GET /healthz", plain, 200, ""},
		{"GET /healthz", good, 200, ""},
		{"POST /healthz", plain, 405, ""},
		{"GET //", good, 404, ""},
		{"OPTIONS *", plain, 404, ""},

		{"GET /", good + "Origin: http://evil.example\r\n", 403, ""},
		{"GET /", upgradeHeaders + "Origin:\r\n", 403, ""},
		{"GET /readyz", plain + "Origin:\r\n", 403, ""},
		{"PUT /nowhere", plain + "Origin: x\r\n", 403, ""},
		{"OPTIONS *", plain + "Origin: x\r\n", 403, ""},

		{"POST /", good, 405, "Request method must be `GET`"},
		{"POST /", plain, 405, "Request method must be `GET`"},
		{"HEAD /", good, 405, ""},
		{"GET /", plain, 400, noConn},
		{"GET /", plain + "Accept: text/html,application/xhtml+xml\r\n", 400, forBrowsers},
		{"GET /", without("Connection", ""), 400, noConn},
		{"GET /", without("Connection", "Connection: close\r\n"), 400, noConn},
		{"GET /", without("Upgrade", ""), 400, noUp},
		{"GET /", without("Upgrade", "Upgrade: h2c\r\n"), 400, noUp},
		{"GET /", without("Upgrade", "Upgrade: h2c, websocket\r\n"), 400, noUp},
		{"GET /", without("Sec-WebSocket-Version", ""), 400, noVer},
		{"GET /", without("Sec-WebSocket-Version", "Sec-WebSocket-Version: 12\r\n"), 400, noVer},
		{"GET /", without("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8, 13\r\n"), 400, noVer},
		{"GET /", without("Sec-WebSocket-Key", ""), 400, "`Sec-WebSocket-Key` header missing"},

		{"GET /", upgradeHeaders, 401, "missing websocket bearer token"},
		{"GET /", upgradeHeaders + "Authorization: Basic tok\r\n", 401, "invalid authorization header"},
		{"GET /", upgradeHeaders + "Authorization: Bearer tock\r\n", 401, "invalid websocket bearer token"},

		{"GET /", good, 101, ""},
		{"GET /?a=b", good, 101, ""},
		{"GET http://anywhere", good, 101, ""},
		{"GET /", without("Connection", "Connection: keep-alive, upGRADE\r\n") + "Authorization: Bearer tok\r\n", 101, ""},
		{"GET /", without("Connection", "Connection: keep-alive\r\nConnection: upgrade\r\n") + "Authorization: Bearer tok\r\n", 101, ""},
		{"GET /", without("Upgrade", "Upgrade: WebSocket\r\n") + "Authorization: Bearer tok\r\n", 101, ""},
	} {
		t.Run(fmt.Sprint(tt.request, " ", tt.status), func(t *testing.T) {
			resp, body := s.ask(t, tt.request+" HTTP/1.1\r\n"+tt.headers+"\r\n")
			if resp.StatusCode != tt.status || body != tt.body {
				t.Fatalf("%q\ngot %d %q, want %d %q", tt.headers, resp.StatusCode, body, tt.status, tt.body)
			}
			if kind := resp.Header.Get("Content-Type"); body != "" && kind != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type %q", kind)
			}
			if allow := resp.Header.Get("Allow"); tt.status == 405 && strings.Contains(tt.request, "readyz") && allow != "GET,HEAD" {
				t.Errorf("Allow %q", allow)
			}
			if tt.status == 101 {
				<-s.accepted
			}
		})
	}
	if resp, body := s.ask(t, "GET / HTTP/1.0\r\n"+good+"\r\n"); resp.StatusCode != 426 {
		t.Errorf("HTTP/1.0: got %d %q", resp.StatusCode, body)
	}
	if len(s.accepted) != 0 {
		t.Errorf("%d connections accepted without a 101", len(s.accepted))
	}
}

func TestUpgradeHandsOverTheConnection(t *testing.T) {
	s := startUpgrader(t, Config{}, nil)
	conn := s.dial(t)
	io.WriteString(conn, "GET / HTTP/1.1\r\n"+upgradeHeaders+
		"Authorization: ignored\r\nSec-WebSocket-Protocol: a\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\nearly bytes")
	head, err := readHead(conn)
	const want = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
	if err != nil || head != want {
		t.Fatalf("got %q, %v", head, err)
	}
	got := <-s.accepted
	if got.client.Peer != conn.LocalAddr().String() {
		t.Errorf("peer %q, want %q", got.client.Peer, conn.LocalAddr())
	}
	if _, ok := got.conn.(*net.TCPConn); !ok {
		t.Errorf("accepted a %T", got.conn)
	}
	// The early bytes come first, whether they were read with the request or not.
	io.WriteString(conn, " and late ones")
	rest := make([]byte, len("early bytes and late ones")-len(got.buffered))
	if _, err := io.ReadFull(got.conn, rest); err != nil {
		t.Fatal(err)
	}
	if all := got.buffered + string(rest); all != "early bytes and late ones" {
		t.Errorf("got %q", all)
	}
}

func TestUpgradeOnSocketFile(t *testing.T) {
	s := startUpgrader(t, Config{URL: "unix://" + t.TempDir() + "/s"}, nil)
	if resp, _ := s.ask(t, "GET / HTTP/1.1\r\n"+upgradeHeaders+"\r\n"); resp.StatusCode != 101 {
		t.Fatal(resp.Status)
	}
	if got := <-s.accepted; got.client.Peer != "unix" {
		t.Errorf("peer %q", got.client.Peer)
	}
}

func TestStopClosesWaitingConnectionsOnly(t *testing.T) {
	s := startUpgrader(t, Config{}, nil)
	upgraded := s.dial(t)
	io.WriteString(upgraded, "GET / HTTP/1.1\r\n"+upgradeHeaders+"\r\n")
	if _, err := readHead(upgraded); err != nil {
		t.Fatal(err)
	}
	peer := (<-s.accepted).conn
	silent := s.dial(t)
	// An answered request proves that the connection was accepted.
	io.WriteString(silent, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := readHead(silent); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if n, err := silent.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes from a closed connection", n)
	}
	if _, err := net.Dial("tcp", s.l.Addr().String()); err == nil {
		t.Error("still listening")
	}
	if _, err := io.WriteString(peer, "x"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(upgraded, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// pipeListener accepts connections in memory, so that synctest can fake the time.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error   { close(l.closed); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestSilentClientsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipeListener{make(chan net.Conn), make(chan struct{})}
		connect := func(send string) net.Conn {
			client, server := net.Pipe()
			l.conns <- server
			io.WriteString(client, send)
			return client
		}
		accepted := make(chan net.Conn, 1)
		web := &upgrader{log: slog.New(slog.DiscardHandler), accept: func(conn net.Conn, _ []byte, _ Client) { accepted <- conn }}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error)
		go func() { served <- web.serve(ctx, l) }()

		start := time.Now()
		for _, sent := range []string{"", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n" + upgradeHeaders} {
			client := connect(sent)
			opened := time.Now()
			io.Copy(io.Discard, client) // until the server closes the connection
			if waited := time.Since(opened); waited != handshakeTimeout {
				t.Errorf("%q: dropped after %v", sent, waited)
			}
			client.Close()
		}

		client := connect("GET / HTTP/1.1\r\n" + upgradeHeaders + "\r\n")
		readHead(client)
		conn := <-accepted
		time.Sleep(time.Hour) // fake time, in which nothing is sent
		go io.WriteString(client, "x")
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		client.Close()
		conn.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestServeWaitsForUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipeListener{make(chan net.Conn), make(chan struct{})}
		accepting, goOn := make(chan net.Conn), make(chan struct{})
		web := &upgrader{log: slog.New(slog.DiscardHandler), accept: func(conn net.Conn, _ []byte, _ Client) {
			accepting <- conn
			<-goOn
		}}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- web.serve(ctx, l) }()
		client, server := net.Pipe()
		l.conns <- server
		io.WriteString(client, "GET / HTTP/1.1\r\n"+upgradeHeaders+"\r\n")
		readHead(client)
		conn := <-accepting
		cancel()
		synctest.Wait()
		if len(served) != 0 {
			t.Error("serve returned while accept was running")
		}
		close(goOn)
		if err := <-served; err != nil {
			t.Error(err)
		}
		client.Close()
		conn.Close()

		r := httptest.NewRequest("GET", "/", nil)
		for line := range strings.Lines(upgradeHeaders) {
			name, value, _ := strings.Cut(line, ":")
			r.Header.Set(name, strings.TrimSpace(value))
		}
		w := httptest.NewRecorder()
		if web.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
			t.Errorf("an upgrade after the end got %d", w.Code)
		}
	})
}

func TestTooManyWaitingConnections(t *testing.T) {
	var room waitingRoom
	conns := make([]net.Conn, maxWaiting+2)
	for i := range conns {
		conns[i], _ = net.Pipe()
		t.Cleanup(func() { conns[i].Close() })
	}
	closed := func(conn net.Conn) bool { return conn.SetDeadline(time.Time{}) != nil }

	for _, conn := range conns[:maxWaiting] {
		room.track(conn, http.StateNew)
	}
	room.track(conns[0], http.StateHijacked)
	room.track(conns[maxWaiting], http.StateNew) // takes the place of a connection that has left
	for i := range 2 {
		if closed(conns[i]) {
			t.Fatalf("connection %d closed though there was room", i)
		}
	}
	room.track(conns[maxWaiting+1], http.StateNew)
	if !closed(conns[1]) || closed(conns[0]) || closed(conns[2]) {
		t.Error("not exactly the oldest connection was closed")
	}
	for _, conn := range conns {
		room.track(conn, http.StateClosed)
	}
	if room.order.Len() != 0 || len(room.seats) != 0 {
		t.Errorf("%d connections in an empty waitingRoom", room.order.Len())
	}
}

func TestSecretsAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	s := startUpgrader(t, Config{Auth: AuthConfig{Token: &CapabilityToken{File: secretFile(t, "right-token")}}},
		slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for _, token := range []string{"wrong-token", "right-token"} {
		s.ask(t, "GET / HTTP/1.1\r\n"+upgradeHeaders+"Authorization: Bearer "+token+"\r\n\r\n")
	}
	s.stop()
	if text := log.String(); strings.Contains(text, "-token") || !strings.Contains(text, "not authenticated") {
		t.Errorf("log: %s", text)
	}
}

// A program that asks its clients to connect elsewhere is not ready, and still alive.
func TestReady(t *testing.T) {
	why := errors.New("no hub")
	web := &upgrader{log: slog.New(slog.DiscardHandler), ready: func() error { return why }}
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		web.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	if code, text := ask("/readyz"); code != http.StatusServiceUnavailable || text != "no hub\n" {
		t.Errorf("%d %s", code, text)
	}
	if code, _ := ask("/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	why = nil
	if code, text := ask("/readyz"); code != http.StatusOK || text != "" {
		t.Errorf("%d %s", code, text)
	}
}

// withToken returns an access that needs a token.
func withToken(token string) *access {
	return &access{auth: NewToken(token)}
}

// A page is for clients that may connect.
func TestPages(t *testing.T) {
	web := &upgrader{access: withToken("tok"), log: slog.New(slog.DiscardHandler), pages: []Page{JSONPage("/hosts", func() any { return []int{1} })}}
	for _, row := range []struct {
		method, token string
		status        int
	}{
		{http.MethodGet, "tok", http.StatusOK}, {http.MethodPost, "tok", http.StatusMethodNotAllowed},
		{http.MethodGet, "other", http.StatusUnauthorized}, {http.MethodGet, "", http.StatusUnauthorized},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(row.method, "/hosts", nil)
		if row.token != "" {
			r.Header.Set("Authorization", "Bearer "+row.token)
		}
		if web.ServeHTTP(w, r); w.Code != row.status || (w.Body.String() == "[1]\n") != (row.status == http.StatusOK) {
			t.Errorf("%+v: %d %s", row, w.Code, w.Body)
		}
	}
}
