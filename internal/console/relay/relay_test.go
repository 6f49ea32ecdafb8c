package relay

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// serving runs serve until the test ends, and fails if it returns an error.
func serving(t *testing.T, serve func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx) }() // stop waits for it
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// startRelay starts a Relay to a server that has seen the requests in seen, and whose sockets answer each line with itself.
func startRelay(t *testing.T) (r *Relay, seen chan string, stop func()) {
	t.Helper()
	seen = make(chan string, maxConnections)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/console/socket" {
			seen <- q.Method + " " + q.Host + q.RequestURI + " " + q.Header.Get("Origin") + q.Header.Get("X-Forwarded-For")
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(conn, conn)
	}))
	t.Cleanup(server.Close)
	r, err := Listen(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r, seen, serving(t, r.Serve)
}

func TestRelay(t *testing.T) {
	r, _, stop := startRelay(t)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.Origin(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, "GET /console/socket?key=k HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		return conn
	}
	hear := func(conn net.Conn) {
		t.Helper()
		in := bufio.NewReader(conn)
		if answer, err := http.ReadResponse(in, nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%+v %v", answer, err)
		}
		io.WriteString(conn, "hello\n")
		if line, err := in.ReadString('\n'); line != "hello\n" || err != nil {
			t.Fatalf("%q %v", line, err)
		}
	}
	conns := make([]net.Conn, maxConnections)
	for i := range conns {
		conns[i] = dial()
		hear(conns[i])
	}
	late := dial() // has to wait for one of the others
	conns[0].Close()
	hear(late)
	stop()
	for _, conn := range append(conns[1:], late) {
		if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, io.EOF) {
			if e, timeout := errors.AsType[net.Error](err); timeout && e.Timeout() {
				t.Fatal("a connection outlives the relay")
			}
		}
	}
}

// The server of a relay may let in every program that reaches it. By the port of the relay only browsers get in.
func TestRelayPassesOnlyTheConsole(t *testing.T) {
	r, seen, _ := startRelay(t)
	host := strings.TrimPrefix(r.Origin(), "http://")
	for _, row := range []struct{ request, want string }{
		{"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket", ""},
		{"GET http://" + host + " HTTP/1.1", ""},
		{"OPTIONS * HTTP/1.1", ""},
		{"GET /metrics HTTP/1.1", ""},
		{"GET /consoles HTTP/1.1", ""},
		{"POST /console/code HTTP/1.1\r\nContent-Length: 0", ""},
		{"GET /console HTTP/1.1", "GET " + host + "/console "},
		{"GET /console/%63ode?a=b&host=c HTTP/1.1", "GET " + host + "/console/%63ode?a=b&host=c "},
		{"POST /console/login HTTP/1.1\r\nContent-Length: 0\r\nOrigin: http://" + host, "POST " + host + "/console/login http://" + host},
	} {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, row.request+"\r\nHost: "+host+"\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		conn.Close()
		if err != nil {
			t.Fatalf("%s: %v", row.request, err)
		}
		var got string
		select {
		case got = <-seen:
		default:
		}
		if refused := answer.StatusCode == http.StatusNotFound; refused != (row.want == "") || got != row.want {
			t.Errorf("%s: status %d, and the server has seen %q, want %q", row.request, answer.StatusCode, got, row.want)
		}
	}
}

func startPages(t *testing.T, argv ...string) (b *tethertest.Browser, p *Pages, stop func()) {
	t.Helper()
	files := func() (map[string][]byte, error) { return map[string][]byte{"index.html": []byte("<p>")}, nil }
	p, err := ListenPages(t.Context(), files, Command(argv, false, io.Discard), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	origin, code, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	stop = serving(t, p.Serve)
	return tethertest.Browse(t, origin, code), p, stop
}

func TestPages(t *testing.T) {
	b, p, stop := startPages(t, "cat")
	ws, err := b.Dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	for _, message := range []string{`{"id":1}`, `{"text":"` + strings.Repeat("x", 1<<20) + `"}`} {
		if err := ws.WriteText([]byte(message)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := ws.Read(); err != nil || string(got) != message {
			t.Fatalf("%d bytes come back as %.100q, %v", len(message), got, err)
		}
	}
	_, err = tethertest.DialWS(t.Context(), p.l.URL, nil)
	if refused, ok := errors.AsType[*tethertest.UpgradeError](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("another program of this machine: %v", err)
	}
	stop()
	if _, _, err = ws.Read(); err == nil {
		t.Fatal("a page outlives the relay")
	}
	if closed, ok := errors.AsType[*tethertest.CloseError](err); !ok || closed.Reason != errStopping.Reason {
		t.Errorf("it ends with %v", err)
	}
}

// A page learns why it is not connected.
func TestPagesWithoutServer(t *testing.T) {
	for _, argv := range [][]string{{"false"}, {"/does/not/exist"}} {
		b, _, _ := startPages(t, argv...)
		ws, err := b.Dial(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		_, _, err = ws.Read()
		if closed, ok := errors.AsType[*tethertest.CloseError](err); !ok || closed.Reason == "" {
			t.Errorf("%v: %v", argv, err)
		}
	}
}
