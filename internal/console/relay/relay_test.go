package relay

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
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

// echo answers each line with itself, to as many clients as come.
func echo(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	return l
}

func TestRelay(t *testing.T) {
	server := echo(t)
	r, err := Listen(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Addr().String())
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	stop := serving(t, r.Serve)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.Origin(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		io.WriteString(conn, "hello\n")
		return conn
	}
	hear := func(conn net.Conn) {
		t.Helper()
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "hello\n" || err != nil {
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

func startPages(t *testing.T, argv ...string) (b *tethertest.Browser, p *Pages, stop func()) {
	t.Helper()
	files := func() (map[string][]byte, error) { return map[string][]byte{"index.html": []byte("<p>")}, nil }
	p, err := ListenPages(t.Context(), files, Command(argv, io.Discard), slog.New(slog.DiscardHandler))
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
