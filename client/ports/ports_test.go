package ports_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/ports"
	"github.com/tetherexec/tether/internal/cable"
	engine "github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB, url string) *client.Client {
	t.Helper()
	c, err := client.Dial(tethertest.Within(t), url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// target listens on loopback and serves each connection.
func target(t testing.TB, serve func(*net.TCPConn)) ports.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { // ends with the forwarded connection, at the latest with the client
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return ports.Target{Port: uint16(l.Addr().(*net.TCPAddr).Port)}
}

func echo(conn *net.TCPConn) {
	io.Copy(conn, conn)
	conn.CloseWrite()
}

// A report is the end of a forwarded connection that has failed.
type reports chan error

func (r reports) add(_ net.Addr, err error) { r <- err }

// forward listens and forwards to the target until the test ends.
func forward(t testing.TB, c *client.Client, to ports.Target) (address string, failures reports) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failures = make(reports, 2*ports.MaxOpen)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { ports.Of(c).Serve(ctx, l, to, failures.add) }) // ends with ctx
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return l.Addr().String(), failures
}

func connect(t testing.TB, address string) *net.TCPConn {
	t.Helper()
	ctx := tethertest.Within(t)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// roundTrip sends bytes to an echo and compares what comes back. It half-closes the connection.
func roundTrip(conn *net.TCPConn, data []byte) error {
	var sending sync.WaitGroup
	var sent error
	sending.Go(func() { // ends with the connection
		_, err := conn.Write(data)
		sent = errors.Join(err, conn.CloseWrite())
	})
	got, err := io.ReadAll(conn)
	conn.Close()
	sending.Wait()
	if err := errors.Join(sent, err); err != nil {
		return fmt.Errorf("after %d of %d bytes: %w", len(got), len(data), err)
	}
	if !bytes.Equal(got, data) {
		return fmt.Errorf("%d bytes came back, which differ from the %d that were sent", len(got), len(data))
	}
	return nil
}

// Whichever message is the last of a connection, no byte is lost and none comes twice, in either direction.
func TestCuts(t *testing.T) {
	t.Parallel()
	size := tethertest.Scaled(int64(512<<10), 64<<20)
	isLast := func(m *cable.Message) bool {
		return bytes.Contains(m.Raw, fmt.Appendf(nil, `"offset":%d,`, size)) || bytes.Contains(m.Raw, fmt.Appendf(nil, `"offset":%d,`, size-1000))
	}
	for _, cut := range []struct {
		name   string
		from   cable.Direction
		match  cable.Match
		action cable.Action
	}{
		{"behind bytes of the target", cable.FromServer, cable.Method(wire.NotePortData).Every(5), cable.SeverAfter},
		{"before bytes of the target", cable.FromServer, cable.Method(wire.NotePortData).Every(6), cable.SeverBefore},
		{"behind bytes of the client", cable.FromClient, cable.Method(wire.NotePortWrite).Every(5), cable.ResetAfter},
		{"before bytes of the client", cable.FromClient, cable.Method(wire.NotePortWrite).Every(6), cable.ResetBefore},
		{"before acknowledgements of the server", cable.FromServer, cable.Method(wire.NotePortAcked).Every(4), cable.SeverBefore},
		{"before the last acknowledgement of the server", cable.FromServer, cable.Method(wire.NotePortAcked).Where(isLast).Times(2), cable.SeverBefore},
		{"before acknowledgements of the client", cable.FromClient, cable.Method(wire.NotePortAck).Every(4), cable.SeverBefore},
		{"before the answer to an open", cable.FromServer, cable.Answer(wire.MethodPortOpen).Times(3), cable.SeverBefore},
		{"before the answer to a close", cable.FromServer, cable.Answer(wire.MethodPortClose).Times(2), cable.SeverBefore},
		{"before the end of the client", cable.FromClient, cable.Method(wire.NotePortWrite).Where(hasEnd).Times(2), cable.SeverBefore},
		{"behind the end of the client", cable.FromClient, cable.Method(wire.NotePortWrite).Where(hasEnd).Times(2), cable.SeverAfter},
		{"before the end of the target", cable.FromServer, cable.Method(wire.NotePortData).Where(hasEnd).Times(2), cable.SeverBefore},
		{"for the client alone", cable.FromServer, cable.Method(wire.NotePortData).Every(7), cable.StrandAfter(cable.Silent)},
	} {
		t.Run(cut.name, func(t *testing.T) {
			t.Parallel()
			c := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
			address, failures := forward(t, dial(t, c.URL()), target(t, echo))
			rule := c.On(cut.from, cut.match, cut.action)
			closed := c.On(cable.FromServer, cable.Answer(wire.MethodPortClose).Always())
			data := tethertest.PatternBytes(t, size)
			var running sync.WaitGroup
			for i := range 2 {
				conn := connect(t, address)
				running.Go(func() {
					if err := roundTrip(conn, data[i*1000:]); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			if err := closed.Await(tethertest.Within(t), 2); err != nil {
				t.Errorf("the server was not told to forget the connections: %v", err)
			}
			if rule.Count() == 0 {
				t.Error("there was no cut")
			}
			if len(failures) > 0 {
				t.Error(<-failures)
			}
		})
	}
}

func hasEnd(m *cable.Message) bool { return bytes.Contains(m.Raw, []byte(`"end":true`)) }

// A real web server through connections that are cut again and again, with connections that are kept alive.
func TestWebServerThroughCuts(t *testing.T) {
	t.Parallel()
	page := tethertest.PatternBytes(t, 300_000)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(append(body, page...))
	}))
	t.Cleanup(site.Close)
	c := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	cuts := c.On(cable.FromServer, cable.Any().Every(20), cable.SeverAfter)
	_, port, _ := net.SplitHostPort(site.Listener.Addr().String())
	var to ports.Target
	fmt.Sscan(port, &to.Port)
	address, _ := forward(t, dial(t, c.URL()), to)
	browser := &http.Client{Transport: &http.Transport{}}
	defer browser.CloseIdleConnections()
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for j := range tethertest.Scaled(5, 200) {
				body := fmt.Sprintf("request %d of %d", j, i)
				resp, err := browser.Post("http://"+address, "text/plain", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(got, append([]byte(body), page...)) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			}
		})
	}
	running.Wait()
	if cuts.Count() < 3 {
		t.Errorf("%d cuts", cuts.Count())
	}
}

// A connection whose reader never reads blocks no other, and what is kept of it is bounded.
func TestReaderThatNeverReads(t *testing.T) {
	t.Parallel()
	flood := target(t, func(conn *net.TCPConn) {
		io.Copy(conn, tethertest.Pattern(1, 1<<40))
	})
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL)
	address, _ := forward(t, c, flood)
	stuck := connect(t, address)
	if _, err := io.ReadFull(stuck, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	other, _ := forward(t, c, target(t, echo))
	for range 3 {
		if err := roundTrip(connect(t, other), tethertest.PatternBytes(t, 2*engine.Window)); err != nil {
			t.Error(err)
		}
	}
	stuck.Close()
}

// Many connections at once, through cuts.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	c := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	address, _ := forward(t, dial(t, c.URL()), target(t, echo))
	conns := make([]*net.TCPConn, tethertest.Scaled(100, 500))
	for i := range conns {
		conns[i] = connect(t, address)
		if _, err := conns[i].Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, conn := range conns {
		b := make([]byte, 1)
		if _, err := io.ReadFull(conn, b); err != nil || b[0] != byte(i) {
			t.Fatalf("connection %d: %v, %v", i, b, err)
		}
	}
	c.Sever()
	for i, conn := range conns {
		if err := roundTrip(conn, []byte(fmt.Sprint("again ", i))); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
}

func TestRefusedTargets(t *testing.T) {
	t.Parallel()
	nobody := target(t, func(*net.TCPConn) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := ports.Target{Port: uint16(l.Addr().(*net.TCPAddr).Port)}
	l.Close()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL)
	for _, try := range []struct {
		to     ports.Target
		reason string
	}{
		{closed, wire.ErrorPortRefused},
		{ports.Target{Host: "192.0.2.1", Port: 80}, wire.ErrorPortDenied},
		{ports.Target{Host: "example.test", Port: 80}, wire.ErrorPortDenied},
		{ports.Target{Host: "0.0.0.0", Port: nobody.Port}, wire.ErrorPortDenied},
		{ports.Target{}, ""},
	} {
		address, failures := forward(t, c, try.to)
		if conn, err := net.Dial("tcp", address); err == nil { // it may be reset already
			if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("%v: %d bytes, %v", try.to, n, err)
			}
			conn.Close()
		}
		err := <-failures
		if refusal, ok := errors.AsType[*client.ServerError](err); !ok || refusal.Reason != try.reason {
			t.Errorf("%v: %v", try.to, err)
		}
	}
	none := dial(t, tethertest.StartServer(t, server.Config{Forward: engine.Nowhere}).URL)
	address, failures := forward(t, none, nobody)
	if conn, err := net.Dial("tcp", address); err == nil {
		defer conn.Close()
	}
	if err := <-failures; !errors.Is(err, client.ErrUnsupported) {
		t.Errorf("a server that forwards nothing: %v", err)
	}
}

// Loopback has more than one address.
func TestLoopbackAddresses(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL)
	to := target(t, echo)
	for _, host := range []string{"", "localhost", "127.0.0.1", "::ffff:127.0.0.1"} {
		to.Host = host
		address, _ := forward(t, c, to)
		if err := roundTrip(connect(t, address), []byte("hello")); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6: ", err)
	}
	defer l.Close()
	address, _ := forward(t, c, ports.Target{Port: uint16(l.Addr().(*net.TCPAddr).Port)})
	conn := connect(t, address)
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	there.Write([]byte("six"))
	there.Close()
	if got, err := io.ReadAll(conn); string(got) != "six" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A target that resets its connection resets the client's, behind the bytes that came before.
func TestReset(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL)
	gate := make(chan struct{})
	address, failures := forward(t, c, target(t, func(conn *net.TCPConn) {
		conn.Write([]byte("last words"))
		<-gate
		conn.SetLinger(0)
	}))
	conn := connect(t, address)
	got := make([]byte, 10)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "last words" {
		t.Fatalf("%q, %v", got, err)
	}
	close(gate)
	if n, err := conn.Read(got); err == nil || err == io.EOF {
		t.Errorf("after the reset: %d bytes, %v", n, err)
	}
	if err := <-failures; err == nil || !strings.Contains(err.Error(), "the target: ") {
		t.Errorf("reported: %v", err)
	}

	seen := make(chan error, 1)
	address, _ = forward(t, c, target(t, func(conn *net.TCPConn) {
		conn.Write([]byte("x"))
		_, err := io.Copy(io.Discard, conn)
		seen <- err
	}))
	conn = connect(t, address)
	if _, err := io.ReadFull(conn, got[:1]); err != nil {
		t.Fatal(err)
	}
	conn.SetLinger(0)
	conn.Close()
	if err := <-seen; err == nil {
		t.Error("the target saw an end instead of a reset")
	}
}

// When the server has lost the session's connections, forwarded connections end, and say so.
func TestLostByTheServer(t *testing.T) {
	t.Parallel()
	c := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	address, failures := forward(t, dial(t, c.URL()), target(t, echo))
	conn := connect(t, address)
	conn.Write([]byte("x"))
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c.On(cable.FromServer, cable.Answer(wire.MethodPortOpen), cable.Fail(wire.CodeInvalidRequest, "the server has lost it"))
	c.Sever()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	}
	if err := <-failures; err == nil || !strings.Contains(err.Error(), "the server has lost it") {
		t.Errorf("reported: %v", err)
	}
	if err := roundTrip(connect(t, address), []byte("the next one")); err != nil {
		t.Error(err)
	}
}
