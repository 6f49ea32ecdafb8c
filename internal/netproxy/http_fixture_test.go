package netproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// testTime bounds the wait for an event that must come.
const testTime = 20 * time.Second

// An httpTest is a proxy on a loopback port.
type httpTest struct {
	*testing.T
	proxy  *Proxy
	addr   string
	log    bytes.Buffer // of the proxy; read it after Close
	mu     sync.Mutex
	events []Event
}

// newHTTPTest serves a proxy with these rules. Names are resolved by cfg.Resolve or not
// at all.
func newHTTPTest(t *testing.T, s netpolicy.Settings, cfg Config) *httpTest {
	t.Helper()
	if s.Mode == "" {
		s.Mode = netpolicy.Full
	}
	rules, err := netpolicy.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	h := &httpTest{T: t}
	cfg.Rules = rules
	cfg.Log = slog.New(slog.NewTextHandler(&h.log, nil))
	cfg.Decided = func(e Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(h.events, e)
	}
	if cfg.Resolve == nil {
		cfg.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such name") }
	}
	h.proxy = New(cfg)
	h.serve(headerTimeout)
	return h
}

func (h *httpTest) serve(headerTimeout time.Duration) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.Fatal(err)
	}
	h.addr = l.Addr().String()
	h.proxy.run(func() { h.proxy.serveHTTP(l, headerTimeout) })
	h.Cleanup(h.proxy.Close)
}

// dial connects to the proxy.
func (h *httpTest) dial() *net.TCPConn {
	h.Helper()
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(testTime))
	h.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// exchange sends bytes and returns everything that comes back until the proxy
// closes.
func (h *httpTest) exchange(send string) string {
	h.Helper()
	c := h.dial()
	go c.Write([]byte(send)) // ends with c; the proxy may close earlier
	got, err := io.ReadAll(c)
	if err != nil && len(got) == 0 {
		h.Fatalf("no answer to %.200q: %v", send, err)
	}
	return string(got)
}

// decisions returns the events so far.
func (h *httpTest) decisions() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Event(nil), h.events...)
}

// answerOf reads one response, with its body.
func answerOf(t *testing.T, r *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	a, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a, string(body)
}

// A recorder is a host that keeps everything that it receives, and responds to every
// end of a header.
type recorder struct {
	port string
	mu   sync.Mutex
	got  []string // by connection
	stop func()
}

const recorderAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

func newRecorder(t testing.TB, answer string) *recorder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{port: portOf(l.Addr())}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.serve(c, answer) })
		}
	})
	r.stop = sync.OnceFunc(func() {
		l.Close()
		all.Wait() // the proxy closes the connections
	})
	t.Cleanup(r.stop)
	return r
}

func (r *recorder) serve(c net.Conn, answer string) {
	defer c.Close()
	r.mu.Lock()
	i := len(r.got)
	r.got = append(r.got, "")
	r.mu.Unlock()
	answered := 0
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		r.mu.Lock()
		r.got[i] += string(buf[:n])
		heads := strings.Count(r.got[i], "\r\n\r\n")
		r.mu.Unlock()
		for ; answered < heads; answered++ {
			io.WriteString(c, answer)
		}
		if err != nil {
			return
		}
	}
}

// seen returns the received data, one string for each connection.
func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.got...)
}

func portOf(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

// literals allows a loopback address by its own name.
func literals() netpolicy.Settings {
	return netpolicy.Settings{Domains: map[string]netpolicy.Access{
		"127.0.0.1": netpolicy.Allow, "bad.example": netpolicy.Deny,
	}}
}

// names allows names below ok.example, also if they lead to private addresses.
func names() netpolicy.Settings {
	return netpolicy.Settings{AllowLocalBinding: true, Domains: map[string]netpolicy.Access{
		"**.ok.example": netpolicy.Allow, "bad.example": netpolicy.Deny,
	}}
}

// loopback resolves every name to 127.0.0.1.
func loopback(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}
