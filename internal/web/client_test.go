package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/noproxy"
	"github.com/tetherexec/tether/wire"
)

// redirecting answers by path: "/a" → "302 /b". ADDR is its own address.
func redirecting(t *testing.T, hops map[string]string) *rawServer {
	return serve(t, func(c net.Conn, r string) bool {
		hop, found := hops[strings.Split(r, " ")[1]]
		if !found {
			io.WriteString(c, ok)
			return true
		}
		status, location, _ := strings.Cut(strings.ReplaceAll(hop, "ADDR", c.LocalAddr().String()), " ")
		fmt.Fprintf(c, "HTTP/1.1 %s X\r\nlocation: %s\r\nset-cookie: a=b\r\ncontent-length: 2\r\n\r\nno", status, location)
		return true
	})
}

func TestRedirects(t *testing.T) {
	chain := func(n int) map[string]string {
		hops := map[string]string{}
		for i := range n {
			hops[fmt.Sprintf("/%d", i)] = fmt.Sprintf("302 /%d", i+1)
		}
		return hops
	}
	const moved = `%s content-length=2 location=%s set-cookie=a=b "no"`
	tests := []struct {
		name     string
		hops     map[string]string
		want     string // answer or error
		requests int
	}{
		{"ten", chain(10), `200 content-length=2 "ok"`, 11},
		{"eleven", chain(11), "http/request failed: too many redirects", 11},
		{"circle", map[string]string{"/0": "307 /1", "/1": "308 /0"}, "http/request failed: too many redirects", 11},
		{"nowhere", map[string]string{"/0": "302 "}, "http/request failed: too many redirects", 11},
		{"another scheme", map[string]string{"/0": "302 file:///etc/passwd"}, "http/request failed: redirect target uses unsupported URL scheme: file", 1},
		{"bad location", map[string]string{"/0": "302 http://["}, fmt.Sprintf(moved, "302", "http://["), 1},
		{"location not ASCII", map[string]string{"/0": "302 /é"}, `302 content-length=2 set-cookie=a=b "no"`, 1},
		{"300", map[string]string{"/0": "300 /1"}, fmt.Sprintf(moved, "300", "/1"), 1},
		{"305", map[string]string{"/0": "305 /1"}, fmt.Sprintf(moved, "305", "/1"), 1},
		{"dead end", map[string]string{"/0": "302 http://127.0.0.1:1/x"}, "http/request failed: error sending request for url (http://127.0.0.1:1/x)", 1},
		{"login in location", map[string]string{"/0": "302 //u:p@ADDR/x"}, `200 content-length=2 "ok"`, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := redirecting(t, test.hops)
			r, err := fetch(client(t), get("http://"+s.address+"/0"))
			got := fmt.Sprint(err)
			if err == nil {
				got = show(r)
			}
			requests := s.requests()
			if got != test.want || len(requests) != test.requests {
				t.Errorf("%d requests, %s\nwant %d, %s", len(requests), got, test.requests, test.want)
			}
			for _, r := range requests {
				if strings.Contains(r, "cookie") || strings.Contains(r, "authorization") {
					t.Errorf("sent %q", r)
				}
			}
			if s.connections() != 1 {
				t.Errorf("%d connections", s.connections())
			}
		})
	}
}

func TestRedirectStop(t *testing.T) {
	s := redirecting(t, map[string]string{"/": "302 /x"})
	p := get("http://" + s.address)
	p.RedirectPolicy = wire.RedirectStop
	if got := show(mustFetch(t, client(t), p)); got != `302 content-length=2 location=/x set-cookie=a=b "no"` {
		t.Error(got)
	}
}

func TestNoRefererFromSecureToInsecure(t *testing.T) {
	r := &request{method: "GET", target: &target{scheme: "https", host: "a", path: "/"}, header: fields{}}
	next, _, _ := r.redirected(302, "http://b/")
	if next.header["referer"] != nil {
		t.Error("the https URL is sent to an http target")
	}
	if next, _, _ = r.redirected(302, "https://b/"); next.header["referer"] == nil {
		t.Error("an https target does not get the referer")
	}
}

func TestConnectionsAreReused(t *testing.T) {
	for name, test := range map[string]struct {
		answer, header string
		want           int
	}{
		"kept":              {ok, "X: 1", 1},
		"chunks":            {head200 + "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "X: 1", 1},
		"server says close": {head200 + "connection: close\r\ncontent-length: 0\r\n\r\n", "X: 1", 3},
		"client says close": {ok, "Connection: close", 3},
		"old":               {"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", "X: 1", 3},
		"old but kept":      {"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n", "X: 1", 1},
		"extra bytes":       {ok + "more", "X: 1", 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(c net.Conn, _ string) bool { io.WriteString(c, test.answer); return true })
			c := client(t)
			for range 3 {
				mustFetch(t, c, with(get("http://"+s.address), "GET", "", test.header))
				if test.want == 3 { // net/http may use a connection again before it has noticed the extra bytes on it
					awaitSockets(t, c, 0)
				}
			}
			if s.connections() != test.want {
				t.Errorf("%d connections, want %d", s.connections(), test.want)
			}
		})
	}
}

// If a server closes an idle connection, no request fails. If it closes when it gets a request, the
// request fails unless it may be sent again.
func TestStaleConnections(t *testing.T) {
	s := answering(t, ok)
	c := client(t)
	for range 5 {
		mustFetch(t, c, with(get("http://"+s.address), "GET", ""))
	}
	for method, again := range map[string]bool{"GET": true, "POST": false} {
		var mu sync.Mutex
		served := map[net.Conn]bool{}
		s := serve(t, func(c net.Conn, _ string) bool {
			mu.Lock()
			defer mu.Unlock()
			if served[c] {
				return false
			}
			served[c] = true
			io.WriteString(c, ok)
			return true
		})
		mustFetch(t, c, with(get("http://"+s.address), method, ""))
		if _, err := fetch(c, with(get("http://"+s.address), method, "")); (err == nil) != again {
			t.Errorf("%s on a stale connection: %v", method, err)
		}
	}
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	const parallel = 3 * maxIdlePerHost
	var here, done sync.WaitGroup
	here.Add(parallel)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		here.Done()
		here.Wait() // all at once: each has its own connection
	}))
	defer s.Close()
	c := client(t)
	for range parallel {
		done.Go(func() {
			if _, err := fetch(c, get(s.URL)); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	// The last connections are closed after their answers have been read.
	for deadline := time.Now().Add(hang.Limit); ; time.Sleep(time.Millisecond) {
		n := c.sockets.count()
		if n > 0 && n <= maxIdlePerHost {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d idle connections", n)
		}
	}
}

func (s *sockets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func TestConcurrentRequests(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	}))
	defer s.Close()
	c := client(t)
	var done sync.WaitGroup
	for i := range 16 {
		done.Go(func() {
			for j := range 20 {
				body := strings.Repeat(fmt.Sprintf("%d-%d ", i, j), 100)
				if r, err := fetch(c, with(get(s.URL), "POST", body)); err != nil || string(r.BodyBase64) != body {
					t.Errorf("%d-%d: %v", i, j, err)
				}
			}
		})
	}
	done.Wait()
}

func TestLargeBodyIsEchoed(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		io.Copy(w, r.Body) // sends before it has read everything
	}))
	defer s.Close()
	r := mustFetch(t, client(t), with(get(s.URL), "POST", string(body)))
	if !bytes.Equal(r.BodyBase64, body) {
		t.Errorf("got %d bytes back, sent %d", len(r.BodyBase64), len(body))
	}
}

// The answer of a server that refuses without reading the body arrives.
func TestEarlyRefusal(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	var server sync.WaitGroup
	server.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.Read(make([]byte, 100))
		io.WriteString(c, "HTTP/1.1 413 Big\r\ncontent-length: 2\r\n\r\nno")
		<-heard
	})
	defer server.Wait()
	defer l.Close()
	defer close(heard)
	r := mustFetch(t, client(t), with(get("http://"+l.Addr().String()), "POST", strings.Repeat("x", 32<<20)))
	if got := show(r); got != `413 content-length=2 "no"` {
		t.Error(got)
	}
}

// secureServer serves "secure" and returns its certificate as a file.
func secureServer(t *testing.T) (s *httptest.Server, file string) {
	t.Helper()
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "secure "+r.Proto)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(s.Close)
	file = filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return s, file
}

func TestTLS(t *testing.T) {
	s, file := secureServer(t)
	for _, variable := range []string{"SSL_CERT_FILE", "CODEX_CA_CERTIFICATE"} {
		if r := mustFetch(t, client(t, variable+"="+file), get(s.URL)); string(r.BodyBase64) != "secure HTTP/2.0" {
			t.Error(show(r))
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := New(Config{RootCAs: roots})
	defer c.Close()
	mustFetch(t, c, get(s.URL))
	_, err := fetch(client(t), get(s.URL))
	wantError(t, err, wire.CodeInternal, "http/request failed: error sending request for url ("+s.URL+"/)")
	wrongName := strings.Replace(s.URL, "127.0.0.1", "localhost", 1) // the certificate does not name it
	if _, err := fetch(client(t, "SSL_CERT_FILE="+file), get(wrongName)); err == nil {
		t.Error("a certificate of another name was accepted")
	}
	stalled, _, _ := stalling(t, "")
	limit := uint64(100)
	p := get("https://" + stalled.address)
	p.TimeoutMs = &limit
	if _, err := fetch(c, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a handshake without an answer ends with %v", err)
	}
}

// A testProxy forwards requests, makes tunnels, and records the heads of requests.
func testProxy(t *testing.T) *rawServer {
	return serve(t, func(c net.Conn, request string) bool {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
		if err != nil {
			return false
		}
		if r.Method != http.MethodConnect {
			io.WriteString(c, head200+"via: proxy\r\ncontent-length: 0\r\n\r\n")
			return true
		}
		far, err := net.Dial("tcp", r.Host)
		if err != nil {
			io.WriteString(c, "HTTP/1.1 502 Bad\r\n\r\n")
			return false
		}
		io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n")
		join(c, far)
		return false
	})
}

// join copies both ways until one side ends.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { io.Copy(a, b); a.Close() })
	both.Go(func() { io.Copy(b, a); b.Close() })
	both.Wait()
}

func TestPlainProxy(t *testing.T) {
	plain := lines("GET http://nowhere.invalid/x?y HTTP/1.1", "accept: */*", "host: nowhere.invalid")
	const url = "http://u@nowhere.invalid/x?y#z"
	tests := []struct {
		env  []string
		url  string
		want string // what the proxy gets; empty: nothing
	}{
		{[]string{"HTTP_PROXY=http://P"}, "http://nowhere.invalid/x?y#z", plain},
		{[]string{"http_proxy=P"}, "http://nowhere.invalid/x?y", plain},
		{[]string{"ALL_PROXY=http://P/"}, "http://nowhere.invalid/x?y", plain},
		{[]string{"all_proxy=http://P", "HTTP_PROXY="}, "http://nowhere.invalid/x?y", plain},
		{[]string{"HTTP_PROXY=http://P", "http_proxy=http://127.0.0.1:1"}, "http://nowhere.invalid/x?y", plain},
		{[]string{"HTTP_PROXY=", "http_proxy=http://P"}, "http://127.0.0.1:1/", ""},
		{[]string{"HTTPS_PROXY=http://P"}, "http://127.0.0.1:1/", ""},
		{[]string{"HTTP_PROXY=http://P", "REQUEST_METHOD=GET"}, "http://127.0.0.1:1/", ""},
		{[]string{"HTTP_PROXY=ftp://P"}, "http://127.0.0.1:1/", ""},
		{[]string{"HTTP_PROXY=::: bad"}, "http://127.0.0.1:1/", ""},
		{[]string{"HTTP_PROXY=http://us%40:pw@P"}, "http://nowhere.invalid/x?y",
			lines("GET http://nowhere.invalid/x?y HTTP/1.1", "accept: */*", "proxy-authorization: Basic dXNAOnB3", "host: nowhere.invalid")},
		{[]string{"HTTP_PROXY=http://P"}, url,
			lines("GET http://nowhere.invalid/x?y HTTP/1.1", "authorization: Basic dTo=", "accept: */*", "host: nowhere.invalid")},
		{[]string{"HTTP_PROXY=http://P"}, "http://127.0.0.1:1/", lines("GET http://127.0.0.1:1/ HTTP/1.1", "accept: */*", "host: 127.0.0.1:1")},
	}
	for _, test := range tests {
		s := testProxy(t)
		for i := range test.env {
			test.env[i] = strings.ReplaceAll(test.env[i], "P/", s.address+"/")
			if rest, found := strings.CutSuffix(test.env[i], "P"); found {
				test.env[i] = rest + s.address
			}
		}
		_, err := fetch(client(t, test.env...), get(test.url))
		got := strings.Join(s.requests(), "")
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q: proxy got %q, want %q (%v)", test.env, got, test.want, err)
		}
	}
}

func TestNoProxy(t *testing.T) {
	for _, test := range noproxy.Cases {
		c := client(t, "HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY="+test.List)
		u, err := parseTarget("http://" + net.JoinHostPort(test.Host, strconv.Itoa(int(test.Port))))
		if err != nil {
			t.Fatal(err)
		}
		if direct := c.routeTo(u).proxy == nil; direct != test.Direct {
			t.Errorf("NO_PROXY=%q: %s is reached directly: %v", test.List, u, direct)
		}
	}
}

func TestTunnel(t *testing.T) {
	secure, file := secureServer(t)
	s := testProxy(t)
	c := client(t, "HTTPS_PROXY=http://us:pw@"+s.address, "SSL_CERT_FILE="+file)
	for range 2 {
		if r := mustFetch(t, c, with(get(secure.URL), "GET", "", "X: 1")); string(r.BodyBase64) != "secure HTTP/2.0" {
			t.Error(show(r))
		}
	}
	address := secure.Listener.Addr().String()
	want := lines("CONNECT "+address+" HTTP/1.1", "host: "+address, "proxy-authorization: Basic dXM6cHc=")
	if got := s.requests(); !slices.Equal(got, []string{want}) {
		t.Errorf("proxy got %q, want %q once", got, want)
	}
	url := "https://127.0.0.1:1/"
	_, err := fetch(c, get(url)) // the proxy refuses
	wantError(t, err, wire.CodeInternal, "http/request failed: error sending request for url ("+url+")")
}

func TestSecureProxy(t *testing.T) {
	plain := testProxy(t)
	secure, file := secureServer(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: secure.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, // the client must choose HTTP/1.1 for a proxy
	})
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer l.Close()
	work.Go(func() { // ends with the listener; its connections with the client
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				far, err := net.Dial("tcp", plain.address)
				if err != nil {
					c.Close()
					return
				}
				join(c, far)
			})
		}
	})
	c := New(Config{Env: []string{"ALL_PROXY=https://" + l.Addr().String(), "SSL_CERT_FILE=" + file}})
	defer c.Close()
	mustFetch(t, c, get("http://nowhere.invalid/"))
	if r := mustFetch(t, c, get(secure.URL)); string(r.BodyBase64) != "secure HTTP/2.0" {
		t.Error(show(r))
	}
	if n := len(plain.requests()); n != 2 {
		t.Errorf("the proxy got %d requests", n)
	}
}

// TestSOCKS reaches a name that only the proxy can resolve.
func TestSOCKS(t *testing.T) {
	s := answering(t, ok)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	var work sync.WaitGroup
	defer work.Wait()
	defer l.Close()
	work.Go(func() { // serves one connection
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		asked <- socksHandshake(c)
		far, err := net.Dial("tcp", s.address)
		if err != nil {
			return
		}
		join(c, far)
	})
	mustFetch(t, client(t, "ALL_PROXY=socks5h://us:pw@"+l.Addr().String()), get("http://nowhere.invalid:8/x"))
	if got := <-asked; got != "us:pw nowhere.invalid" {
		t.Errorf("the proxy got %q", got)
	}
	if want := lines("GET /x HTTP/1.1", "accept: */*", "host: nowhere.invalid:8"); !slices.Equal(s.requests(), []string{want}) {
		t.Errorf("sent %q", s.requests())
	}
}

// socksHandshake plays the proxy's part of SOCKS5 and returns login and name.
func socksHandshake(c net.Conn) string {
	read := func(n byte) []byte {
		b := make([]byte, n)
		io.ReadFull(c, b)
		return b
	}
	read(read(2)[1]) // version, methods
	c.Write([]byte{5, 2})
	user := read(read(2)[1])
	password := read(read(1)[0])
	c.Write([]byte{1, 0})
	name := read(read(5)[4]) // version, command, reserved, kind, length
	read(2)                  // port
	c.Write([]byte{5, 0, 0, 1, 127, 0, 0, 1, 0, 0})
	return string(user) + ":" + string(password) + " " + string(name)
}

// A connection that is being opened ends with its request: net/http would go on for the next one.
func TestDialEndsWithRequest(t *testing.T) {
	s, _, _ := stalling(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	c := client(t)
	done := make(chan error, 1)
	go func() { // ends with the request
		_, err := c.Do(ctx, get("https://"+s.address))
		done <- err
	}()
	awaitSockets(t, c, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ends with %v", err)
	}
	awaitSockets(t, c, 0)
}

// awaitSockets waits until a client has n open sockets.
func awaitSockets(t *testing.T, c *Client, n int) {
	t.Helper()
	for deadline := time.Now().Add(hang.Limit); c.sockets.count() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d sockets are open, want %d", c.sockets.count(), n)
		}
	}
}

// blockingHTTP2 is a server that sends the beginning of a body and then waits for the end of the request.
func blockingHTTP2(t *testing.T) (url string, roots *x509.CertPool, ended, closed <-chan struct{}) {
	t.Helper()
	over, gone := make(chan struct{}), make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(over)
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(gone)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.URL, roots, over, gone
}

// The end of a request with HTTP/2 ends its stream, and the end of the client its connection.
func TestEndsOfHTTP2(t *testing.T) {
	for name, end := range map[string]func(c *Client, cancel func()){
		"request": func(_ *Client, cancel func()) { cancel() },
		"client":  func(c *Client, _ func()) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			url, roots, ended, closed := blockingHTTP2(t)
			c := New(Config{RootCAs: roots})
			defer c.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := c.Do(ctx, get(url))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len("HTTP/2.0"))
			if _, err := io.ReadFull(r.Body, got); err != nil || string(got) != "HTTP/2.0" {
				t.Fatalf("got %q, %v", got, err)
			}
			end(c, cancel)
			<-ended
			_, err = r.Buffer(always)
			wantError(t, err, wire.CodeInternal, brokenIn)
			c.Close()
			<-closed
		})
	}
}

// A server with HTTP/2 cannot send more ahead of the reader than a stream's window.
func TestBackPressureOfHTTP2(t *testing.T) {
	written := make(chan int64, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // a longer write counts as blocked
		n, _ := io.Copy(w, io.LimitReader(zeros{}, 64<<20))
		written <- n
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := New(Config{RootCAs: roots})
	defer c.Close()
	r, err := c.Do(t.Context(), get(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	if n := <-written; n > 2*streamWindow {
		t.Errorf("the server could send %d bytes ahead", n)
	}
	r.Body.Close()
}
