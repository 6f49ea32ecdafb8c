package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

// A rawServer answers with bytes and records the requests.
type rawServer struct {
	address string

	mu    sync.Mutex
	got   []string // requests with their bodies
	conns int
}

// serve starts a server on loopback that calls answer with each request, head and body. The
// connection is closed when answer returns false.
func serve(t *testing.T, answer func(c net.Conn, request string) bool) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{address: l.Addr().String()}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { l.Close(); cancel(); work.Wait() })
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
			work.Go(func() {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				s.talk(c, answer)
			})
		}
	})
	return s
}

// talk reads requests from one connection.
func (s *rawServer) talk(c net.Conn, answer func(net.Conn, string) bool) {
	r := bufio.NewReader(c)
	for {
		var head strings.Builder
		for !strings.HasSuffix(head.String(), "\r\n\r\n") {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
		}
		request := head.String()
		parsed, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(request), r)))
		if err == nil && parsed.Method != http.MethodConnect {
			body := make([]byte, max(0, parsed.ContentLength))
			buffered := parsed.Body
			n, _ := io.ReadFull(buffered, body)
			request += string(body[:n])
		}
		s.mu.Lock()
		s.got = append(s.got, request)
		s.mu.Unlock()
		if !answer(c, request) {
			return
		}
	}
}

// answering answers every request with the same bytes and closes.
func answering(t *testing.T, answer string) *rawServer {
	t.Helper()
	return serve(t, func(c net.Conn, _ string) bool {
		io.WriteString(c, answer)
		return false
	})
}

// requests returns the requests of the server, with its address as ADDR. Headers are sorted, because
// net/http has its own order.
func (s *rawServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, r := range s.got {
		list = append(list, sortedHead(strings.ReplaceAll(r, s.address, "ADDR")))
	}
	return list
}

// sortedHead sorts the header lines of a request and puts their names in lower case.
func sortedHead(request string) string {
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	parts := strings.Split(head, "\r\n")
	for i, line := range parts[1:] {
		name, value, _ := strings.Cut(line, ":")
		parts[i+1] = strings.ToLower(name) + ":" + value
	}
	slices.SortStableFunc(parts[1:], func(a, b string) int {
		a, _, _ = strings.Cut(a, ":")
		b, _, _ = strings.Cut(b, ":")
		return strings.Compare(a, b)
	})
	return strings.Join(parts, "\r\n") + "\r\n\r\n" + body
}

func (s *rawServer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// client returns a client that ends with the test.
func client(t *testing.T, env ...string) *Client {
	t.Helper()
	c := New(Config{Env: env})
	t.Cleanup(c.Close)
	return c
}

// get returns parameters for a GET of url.
func get(url string) *wire.HTTPRequestParams {
	return &wire.HTTPRequestParams{Method: "GET", URL: url, RequestID: "r"}
}

// with completes parameters: headers as "Name: value".
func with(p *wire.HTTPRequestParams, method, body string, headers ...string) *wire.HTTPRequestParams {
	p.Method = method
	if body != "" {
		b := wire.Base64(body)
		p.BodyBase64 = &b
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		p.Headers = append(p.Headers, wire.HTTPHeader{Name: name, Value: value})
	}
	return p
}

// fetch makes a request and returns its whole answer.
func fetch(c *Client, p *wire.HTTPRequestParams) (*wire.HTTPResponse, error) {
	r, err := c.Do(context.Background(), p)
	if err != nil {
		return nil, err
	}
	return r.Buffer(always)
}

// mustFetch is fetch of a request that must succeed.
func mustFetch(t *testing.T, c *Client, p *wire.HTTPRequestParams) *wire.HTTPResponse {
	t.Helper()
	r, err := fetch(c, p)
	if err != nil {
		t.Fatalf("%s %s: %v (%v)", p.Method, p.URL, err, errors.Unwrap(err))
	}
	return r
}

// wantError checks an error's code and text.
func wantError(t *testing.T, err error, code int, text string) {
	t.Helper()
	e, isError := errors.AsType[*Error](err)
	if !isError || e.Code() != code || e.Error() != text {
		t.Errorf("error is %v\nwant %d %s", err, code, text)
	}
}

// lines is the head of a request as requests returns it.
func lines(list ...string) string { return sortedHead(strings.Join(list, "\r\n") + "\r\n\r\n") }

// quiet discards messages of a test server about failed handshakes.
var quiet = log.New(io.Discard, "", 0)

// always is a room function that never refuses.
func always(int) error { return nil }

func hasRoom(int) bool { return true }
