package netproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/slots"
)

func TestForward(t *testing.T) {
	h := newHTTPTest(t, names(), Config{Resolve: loopback})
	r := newRecorder(t, "HTTP/1.1 302 Found\r\nLocation: http://bad.example/\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"+
		"Keep-Alive: 5\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nhi")
	c := h.dial()
	io.WriteString(c, "GET http://A.ok.example.:"+r.port+"//p%2fq|r/?a=b;c&%zz HTTP/1.1\r\nHost: A.ok.example.:"+r.port+"\r\n"+
		"User-Agent: u\r\nConnection: X-Drop, keep-alive\r\nX-Drop: secret\r\nProxy-Authorization: Basic eDp5\r\n"+
		"Proxy-Connection: keep-alive\r\nKeep-Alive: 1\r\nTE: gzip\r\nX-Forwarded-For: 192.0.2.1\r\nAccept-Encoding: br\r\n\r\n")
	a, body := answerOf(t, bufio.NewReader(c), "GET")
	if a.StatusCode != 302 || body != "hi" || a.Header.Get("Location") != "http://bad.example/" {
		t.Errorf("answer %d %q %v", a.StatusCode, body, a.Header)
	}
	for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate", "Content-Type"} {
		if _, ok := a.Header[name]; ok {
			t.Errorf("the answer has %s", name)
		}
	}
	h.proxy.Close()
	want := "GET http://a.ok.example:" + r.port + "//p%2fq|r/?a=b;c&%zz HTTP/1.1\r\nHost: a.ok.example:" + r.port + "\r\n" +
		"User-Agent: u\r\nAccept-Encoding: br\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close\r\n\r\n"
	if got := r.seen(); len(got) != 1 || got[0] != want {
		t.Errorf("the host got %q, want %q", got, want)
	}
	e := h.decisions()
	if len(e) != 1 || !e[0].Decision.Allowed || e[0].Client != c.LocalAddr().String() || e[0].Address.String() != "127.0.0.1:"+r.port ||
		e[0].Query.Host != "a.ok.example" || e[0].Query.Method != "GET" || e[0].Query.Protocol != netpolicy.HTTP {
		t.Errorf("decisions %+v", e)
	}
	for _, secret := range []string{"p%2fq", "a=b", "secret", "eDp5", "192.0.2.1"} {
		if strings.Contains(h.log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
	if !strings.Contains(h.log.String(), "host=a.ok.example") {
		t.Errorf("log %q", h.log.String())
	}
}

// A path is passed on unchanged; url.URL alone would escape it.
func TestPathKept(t *testing.T) {
	h := newHTTPTest(t, literals(), Config{})
	r := newRecorder(t, recorderAnswer)
	for _, path := range []string{"", "/", "/a|b\"c", "/a%2Fb/%7e?", "/?x=/y"} {
		h.exchange("GET http://127.0.0.1:" + r.port + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + r.port + "\r\nConnection: close\r\n\r\n")
	}
	h.proxy.Close()
	got := strings.Join(r.seen(), "")
	for _, path := range []string{"/", "/a|b\"c", "/a%2Fb/%7e?", "/?x=/y"} {
		if !strings.Contains(got, "GET "+path+" HTTP/1.1\r\n") {
			t.Errorf("%s is missing in %q", path, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	limited := literals()
	limited.Mode = netpolicy.Limited
	for _, c := range []struct {
		name, request string
		settings      netpolicy.Settings
		class, body   string
		kind          string
	}{
		{"not allowed", "GET http://other.example/x", literals(), "blocked-by-allowlist",
			`{"status":"blocked","host":"other.example","reason":"not_allowed","decision":"deny","source":"baseline_policy","protocol":"http","port":80,"message":"Domain not in allowlist."}`, "application/json"},
		{"denied", "GET http://BAD.example.:8080/x", literals(), "blocked-by-denylist",
			`{"status":"blocked","host":"bad.example","reason":"denied","decision":"deny","source":"baseline_policy","protocol":"http","port":8080,"message":"Domain denied by the sandbox policy."}`, "application/json"},
		{"private", "GET http://10.0.0.1/x", literals(), "blocked-by-allowlist",
			`{"status":"blocked","host":"10.0.0.1","reason":"not_allowed_local","decision":"deny","source":"baseline_policy","protocol":"http","port":80,"message":"Sandbox policy blocks local/private network addresses."}`, "application/json"},
		{"metadata", "GET http://169.254.169.254/latest", literals(), "blocked-by-allowlist",
			`{"status":"blocked","host":"169.254.169.254","reason":"not_allowed_local","decision":"deny","source":"baseline_policy","protocol":"http","port":80,"message":"Sandbox policy blocks local/private network addresses."}`, "application/json"},
		{"method", "POST http://127.0.0.1:9/", limited, "blocked-by-method-policy",
			`{"status":"blocked","host":"127.0.0.1","reason":"method_not_allowed","decision":"deny","source":"mode_guard","protocol":"http","port":9,"message":"Method not allowed in limited mode."}`, "application/json"},
		{"connect not allowed", "CONNECT other.example:443", literals(), "blocked-by-allowlist", "Domain not in allowlist.", "text/plain"},
		{"connect denied", "CONNECT bad.example:443", literals(), "blocked-by-denylist", "Domain denied by the sandbox policy.", "text/plain"},
		{"connect metadata", "CONNECT 169.254.169.254:80", literals(), "blocked-by-allowlist", "Sandbox policy blocks local/private network addresses.", "text/plain"},
		{"connect v6", "CONNECT [::1]:80", literals(), "blocked-by-allowlist", "Sandbox policy blocks local/private network addresses.", "text/plain"},
		{"connect mapped", "CONNECT [::ffff:10.0.0.1]:80", literals(), "blocked-by-allowlist", "Sandbox policy blocks local/private network addresses.", "text/plain"},
		{"connect limited", "CONNECT 127.0.0.1:9", limited, "blocked-by-mitm-required", "MITM required for limited HTTPS.", "text/plain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHTTPTest(t, c.settings, Config{})
			a, body := answerOf(t, bufio.NewReader(strings.NewReader(
				h.exchange(c.request+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))), "GET")
			if a.StatusCode != 403 || a.Header.Get("X-Proxy-Error") != c.class || body != c.body || a.Header.Get("Content-Type") != c.kind {
				t.Errorf("answer %d %v %s", a.StatusCode, a.Header, body)
			}
			if e := h.decisions(); len(e) == 0 || e[len(e)-1].Decision.Allowed {
				t.Errorf("decisions %+v", e)
			}
		})
	}
}

func TestAsked(t *testing.T) {
	r := newRecorder(t, recorderAnswer)
	for _, c := range []struct {
		name   string
		d      netpolicy.Decision
		err    error
		status int
		body   string
	}{
		{"allow", netpolicy.Decision{Allowed: true, Source: netpolicy.Decider}, nil, 200, "hi"},
		{"deny", netpolicy.Decision{Source: netpolicy.Decider, Reason: "no <way>"}, nil, 403,
			`{"status":"blocked","host":"new.example","reason":"no <way>","decision":"deny","source":"decider","protocol":"http","port":PORT,"message":"Request blocked by network policy."}`},
		{"ask", netpolicy.Decision{Source: netpolicy.Decider, Reason: "please", Open: true}, nil, 403,
			`{"status":"blocked","host":"new.example","reason":"please","decision":"ask","source":"decider","protocol":"http","port":PORT,"message":"Request blocked by network policy."}`},
		{"error", netpolicy.Decision{Allowed: true}, errors.New("gone"), 403,
			`{"status":"blocked","host":"new.example","reason":"not_allowed","decision":"deny","source":"decider","protocol":"http","port":PORT,"message":"Domain not in allowlist."}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			h := newHTTPTest(t, names(), Config{Resolve: loopback, Ask: func(_ context.Context, q netpolicy.Query) (netpolicy.Decision, error) {
				asked++
				if q.Host != "new.example" || q.Protocol != netpolicy.HTTP {
					t.Errorf("asked about %+v", q)
				}
				return c.d, c.err
			}})
			got := h.exchange("GET http://new.example:" + r.port + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			a, body := answerOf(t, bufio.NewReader(strings.NewReader(got)), "GET")
			if a.StatusCode != c.status || body != strings.ReplaceAll(c.body, "PORT", r.port) {
				t.Errorf("answer %d %s", a.StatusCode, body)
			}
			if e := h.decisions(); asked != 1 || len(e) != 1 || !e[0].Asked {
				t.Errorf("asked %d times, decisions %+v", asked, e)
			}
		})
	}
}

// Ask decides about the host, not about the mode.
func TestAskedLimited(t *testing.T) {
	s := names()
	s.Mode = netpolicy.Limited
	r := newRecorder(t, recorderAnswer)
	h := newHTTPTest(t, s, Config{Resolve: loopback, Ask: func(context.Context, netpolicy.Query) (netpolicy.Decision, error) {
		return netpolicy.Decision{Allowed: true, Source: netpolicy.Decider}, nil
	}})
	for request, want := range map[string]string{
		"GET http://new.example:" + r.port + "/":  "HTTP/1.1 200 ",
		"POST http://new.example:" + r.port + "/": "HTTP/1.1 403 ",
		"CONNECT new.example:" + r.port:           "HTTP/1.1 403 ",
	} {
		if got := h.exchange(request + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", request, got)
		}
	}
}

func TestUnixSocketHeader(t *testing.T) {
	h := newHTTPTest(t, literals(), Config{})
	r := newRecorder(t, recorderAnswer)
	got := h.exchange("GET http://127.0.0.1:" + r.port + "/ HTTP/1.1\r\nHost: x\r\nx-unix-socket: /run/docker.sock\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 501 ") || !strings.HasSuffix(got, "\r\n\r\nunix sockets unsupported") || len(r.seen()) != 0 {
		t.Errorf("answer %s", got)
	}
	if e := h.decisions(); len(e) != 1 || e[0].Decision.Allowed || e[0].Query.Host != "unix-socket" || e[0].Decision.Reason != "unix_socket_unsupported" {
		t.Errorf("decisions %+v", e)
	}
}

// Each request on a connection is decided on its own.
func TestKeepAlive(t *testing.T) {
	asked := 0
	h := newHTTPTest(t, names(), Config{Resolve: loopback, Ask: func(context.Context, netpolicy.Query) (netpolicy.Decision, error) {
		asked++
		return netpolicy.Decision{Allowed: asked == 1, Source: netpolicy.Decider, Reason: "once"}, nil
	}})
	r := newRecorder(t, recorderAnswer)
	c := h.dial()
	in := bufio.NewReader(c)
	for i, step := range []struct {
		host   string
		status int
	}{{"a.ok.example", 200}, {"bad.example", 403}, {"a.ok.example", 200}, {"once.example", 200}, {"once.example", 403}, {"a.ok.example", 200}} {
		fmt.Fprintf(c, "GET http://%s:%s/%d HTTP/1.1\r\nHost: %[1]s:%[2]s\r\n\r\n", step.host, r.port, i)
		if a, _ := answerOf(t, in, "GET"); a.StatusCode != step.status {
			t.Errorf("step %d: %d", i, a.StatusCode)
		}
	}
	c.Close()
	h.proxy.Close()
	if e := h.decisions(); len(e) != 6 {
		t.Errorf("%d decisions", len(e))
	}
	seen := r.seen()
	if all := strings.Join(seen, ""); len(seen) != 4 || strings.Count(all, "GET /") != 4 || strings.Contains(all, "GET /4") {
		t.Errorf("the host got %q", seen)
	}
}

// A name is resolved once, and the checked addresses are dialled: they cannot change
// in between. One refused address among others is enough for a refusal.
func TestResolvedAddresses(t *testing.T) {
	r := newRecorder(t, recorderAnswer)
	private := netip.MustParseAddr("127.0.0.1")
	s := names()
	s.AllowLocalBinding = false
	for name, addrs := range map[string][]netip.Addr{
		"private": {private}, "mapped": {netip.MustParseAddr("::ffff:127.0.0.1")}, "none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			h := newHTTPTest(t, s, Config{Resolve: func(context.Context, string) ([]netip.Addr, error) {
				calls++
				return addrs, nil
			}})
			for _, request := range []string{"GET http://x.ok.example:" + r.port + "/", "CONNECT x.ok.example:" + r.port} {
				got := h.exchange(request + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				if !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "blocks local/private") {
					t.Errorf("%s: %s", request, got)
				}
			}
			if calls != 2 {
				t.Errorf("resolved %d times", calls)
			}
		})
	}
	t.Run("mixed", func(t *testing.T) {
		s := names()
		s.Domains["127.0.0.2"] = netpolicy.Deny
		h := newHTTPTest(t, s, Config{Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{private, netip.MustParseAddr("127.0.0.2")}, nil
		}})
		got := h.exchange("GET http://x.ok.example:" + r.port + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if e := h.decisions(); !strings.HasPrefix(got, "HTTP/1.1 403 ") || len(e) != 1 || e[0].Address.Addr().String() != "127.0.0.2" {
			t.Errorf("answer %s, decisions %+v", got, e)
		}
	})
	t.Run("changing", func(t *testing.T) {
		calls := 0
		h := newHTTPTest(t, names(), Config{Resolve: func(context.Context, string) ([]netip.Addr, error) {
			calls++
			if calls > 1 {
				t.Error("resolved again")
			}
			return []netip.Addr{private}, nil
		}})
		if got := h.exchange("GET http://x.ok.example:" + r.port + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasSuffix(got, "hi") {
			t.Errorf("answer %s", got)
		}
	})
}

func TestFailures(t *testing.T) {
	garbage := newRecorder(t, "garbage\r\n\r\n")
	closed := fmt.Sprint(closedPort(t))
	for name, c := range map[string]struct{ request, want string }{
		"refused":         {"GET http://127.0.0.1:" + closed + "/", "HTTP/1.1 502 Bad Gateway\r\n"},
		"connect refused": {"CONNECT 127.0.0.1:" + closed, "HTTP/1.1 502 Bad Gateway\r\n"},
		"garbage":         {"GET http://127.0.0.1:" + garbage.port + "/", "HTTP/1.1 502 Bad Gateway\r\n"},
		"self":            {"GET http://SELF/", "HTTP/1.1 508 Loop Detected\r\n"},
		"connect self":    {"CONNECT SELF", "HTTP/1.1 508 Loop Detected\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHTTPTest(t, literals(), Config{})
			request := strings.ReplaceAll(c.request, "SELF", h.addr)
			got := h.exchange(request + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if !strings.HasPrefix(got, c.want) || !strings.Contains(got, "Content-Type: text/plain\r\n") || strings.Contains(got, "X-Proxy-Error") {
				t.Errorf("answer %q", got)
			}
		})
	}
	t.Run("timeout", func(t *testing.T) {
		w := httptest.NewRecorder()
		answerFailure(w, fmt.Errorf("dial: %w", context.DeadlineExceeded))
		if w.Code != 504 {
			t.Errorf("status %d", w.Code)
		}
	})
}

// Bodies, trailers, interim responses and responses without an end are passed on
// as they come.
func TestStreaming(t *testing.T) {
	release := make(chan struct{})
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			w.Header().Set("Trailer", "Sum")
			body, _ := io.ReadAll(r.Body)
			w.Write(body)
			w.Header().Set("Sum", r.Trailer.Get("Sum"))
		case "/expect":
			w.Header().Set("Link", "early")
			w.WriteHeader(http.StatusEarlyHints)
			io.Copy(w, r.Body)
		case "/slow":
			w.Header().Set("Content-Length", "13")
			io.WriteString(w, "first\n")
			http.NewResponseController(w).Flush()
			<-release
			io.WriteString(w, "second\n")
		}
	}))
	t.Cleanup(host.Close)
	h := newHTTPTest(t, literals(), Config{})
	head := func(method, path string) string {
		return method + " " + host.URL + path + " HTTP/1.1\r\nHost: " + host.Listener.Addr().String() + "\r\n"
	}
	c := h.dial()
	in := bufio.NewReader(c)

	io.WriteString(c, head("POST", "/echo")+"Transfer-Encoding: chunked\r\nTrailer: Sum\r\nTE: trailers\r\n\r\n3\r\nabc\r\n0\r\nSum: 42\r\n\r\n")
	if a, body := answerOf(t, in, "POST"); body != "abc" || a.Trailer.Get("Sum") != "42" {
		t.Errorf("echo: %q %v", body, a.Trailer)
	}

	io.WriteString(c, head("POST", "/expect")+"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	var interim []int // one 100 may come from the host, one from the proxy, which waits only for a limited time
	answer := func() (a *http.Response, body string) {
		if a, body = answerOf(t, in, "POST"); a.StatusCode < 200 {
			interim = append(interim, a.StatusCode)
		}
		return a, body
	}
	for !slices.Contains(interim, 100) {
		if a, _ := answer(); a.StatusCode >= 200 {
			t.Fatalf("expect: %d before the body", a.StatusCode)
		}
	}
	io.WriteString(c, "ok")
	a, body := answer()
	for a.StatusCode < 200 {
		a, body = answer()
	}
	if !slices.Contains(interim, 103) {
		t.Errorf("interim answers %v", interim)
	}
	if a.StatusCode != 200 || body != "ok" {
		t.Errorf("expect: %d %q", a.StatusCode, body)
	}

	io.WriteString(c, head("GET", "/slow")+"\r\n")
	a, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	lines := bufio.NewReader(a.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" {
		t.Fatalf("slow: %q %v", line, err)
	}
	close(release)
	if line, err := lines.ReadString('\n'); line != "second\n" {
		t.Errorf("slow: %q %v", line, err)
	}
}

// Hosts that send before a request, or go on after their response, write nothing
// into logs, and their data reaches no other request.
func TestHostThatSendsUnasked(t *testing.T) {
	var standard strings.Builder
	log.SetOutput(&standard)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	l := listenTCP(t)
	hosts := make(chan struct{})
	go func() {
		defer close(hosts)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, recorderAnswer+strings.Replace(recorderAnswer, "hi", "no", 1))
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	h := newHTTPTest(t, literals(), Config{})
	c := h.dial()
	in := bufio.NewReader(c)
	for range 20 {
		io.WriteString(c, "GET http://"+l.Addr().String()+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, body := answerOf(t, in, "GET"); body != "hi" {
			t.Fatalf("answer %q", body)
		}
	}
	h.proxy.Close()
	l.Close()
	<-hosts
	if standard.Len() > 0 {
		t.Errorf("log %q", standard.String())
	}
}

func TestReadAfterWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		p := New(Config{})
		defer p.Close()
		tracked, err := p.track(near, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &readAfterWrite{conn: tracked, written: make(chan struct{})}
		defer c.Close()
		heard := make(chan struct{}) // by the reader in the proxy
		go io.WriteString(far, "x")  // ends with far
		go func() {
			c.Read(make([]byte, 1))
			close(heard)
		}()
		synctest.Wait()
		select {
		case <-heard:
			t.Fatal("data was read before the first write")
		default:
		}
		go c.Write([]byte("y")) // ends with c
		<-heard
	})
}

func TestUpgrade(t *testing.T) {
	l := listenTCP(t)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil || r.Header.Get("Upgrade") != "websocket" {
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: k\r\n\r\nhello")
		io.Copy(c, c)
	}()
	h := newHTTPTest(t, literals(), Config{})
	c := h.dial()
	io.WriteString(c, "GET http://"+l.Addr().String()+"/ws HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(c)
	a, err := http.ReadResponse(in, nil)
	if err != nil || a.StatusCode != 101 || a.Header.Get("Sec-Websocket-Accept") != "k" {
		t.Fatalf("answer %v, %v", a, err)
	}
	a.Body.Close()
	io.WriteString(c, " you")
	c.CloseWrite()
	if got, err := io.ReadAll(in); string(got) != "hello you" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTunnel(t *testing.T) {
	l := listenTCP(t)
	heard := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "banner ") // before the client sends anything
		all, _ := io.ReadAll(c)      // up to its half-close
		heard <- string(all)
		io.WriteString(c, "bye")
	}()
	h := newHTTPTest(t, literals(), Config{})
	c := h.dial()
	io.WriteString(c, "CONNECT "+l.Addr().String()+" HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic eDp5\r\n\r\nearly ")
	in := bufio.NewReader(c)
	a, err := http.ReadResponse(in, &http.Request{Method: "CONNECT"})
	if err != nil || a.StatusCode != 200 {
		t.Fatalf("answer %v, %v", a, err)
	}
	io.WriteString(c, "late")
	c.CloseWrite()
	if got, err := io.ReadAll(in); string(got) != "banner bye" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got := <-heard; got != "early late" {
		t.Errorf("the host heard %q", got)
	}
	if e := h.decisions(); len(e) != 1 || e[0].Query.Protocol != netpolicy.Connect || e[0].Query.Method != "CONNECT" {
		t.Errorf("decisions %+v", e)
	}
}

// Close ends clients in every state, and returns.
func TestCloseEndsAll(t *testing.T) {
	asking := make(chan struct{})
	h := newHTTPTest(t, literals(), Config{Ask: func(ctx context.Context, _ netpolicy.Query) (netpolicy.Decision, error) {
		close(asking)
		<-ctx.Done()
		return netpolicy.Decision{Allowed: true}, nil
	}})
	silent := listenTCP(t) // the kernel accepts, and nothing is sent
	target := silent.Addr().String()
	tunnel, fresh, half, idle, waiting, asked := h.dial(), h.dial(), h.dial(), h.dial(), h.dial(), h.dial()
	io.WriteString(tunnel, "CONNECT "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := io.ReadFull(tunnel, make([]byte, len("HTTP/1.1 200 OK\r\n\r\n"))); err != nil {
		t.Fatal(err)
	}
	io.WriteString(half, "GET http://127")
	io.WriteString(idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	answerOf(t, bufio.NewReader(idle), "GET")
	io.WriteString(waiting, "GET http://"+target+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
	io.WriteString(asked, "GET http://who.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
	<-asking
	done := make(chan struct{})
	go func() { h.proxy.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(testTime):
		t.Fatal("Close does not return")
	}
	for i, c := range []net.Conn{tunnel, fresh, half, idle, waiting, asked} {
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("client %d is still connected", i)
		}
	}
	if _, err := net.Dial("tcp", h.addr); err == nil {
		t.Error("still listening")
	}
	h.proxy.Close()
}

// More clients than allowed wait for a free slot.
func TestClientLimit(t *testing.T) {
	h := &httpTest{T: t, proxy: New(Config{})}
	h.proxy.clients = slots.New(1)
	h.serve(headerTimeout)
	first, second := h.dial(), h.dial()
	request := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	io.WriteString(first, request)
	answerOf(t, bufio.NewReader(first), "GET")
	io.WriteString(second, request)
	second.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // too short a wait can miss a defect, but cannot report a false one
	if n, err := second.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("the second client was served while the first was there")
	}
	second.SetReadDeadline(time.Now().Add(testTime))
	first.Close()
	answerOf(t, bufio.NewReader(second), "GET")
}

// A header that is not complete in time ends the connection, even if its bytes come
// slowly.
func TestSlowHeader(t *testing.T) {
	h := &httpTest{T: t, proxy: New(Config{})}
	h.serve(30 * time.Millisecond)
	for _, start := range []string{"", "GET http://127.0.0.1/ HTTP/1.1\r\nA: "} {
		c := h.dial()
		io.WriteString(c, start)
		go func() {
			for {
				if _, err := io.WriteString(c, "a"); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond) // one byte at a time
			}
		}()
		if got, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("still connected after %q", got)
		}
		c.Close()
	}
}

// Many responses at a time take little memory each.
func TestAnswerBuffers(t *testing.T) {
	var b bufferPool
	total := 0
	var taken [][]byte
	for range maxClients {
		p := b.Get()
		total += len(p)
		taken = append(taken, p)
	}
	if most := 32 << 20; total > most {
		t.Errorf("%d answers take %d bytes, more than %d", maxClients, total, most)
	}
	for _, p := range taken {
		b.Put(p)
	}
	if p := b.Get(); len(p) != answerCopyBuffer {
		t.Errorf("a single answer gets %d bytes", len(p))
	}
}
