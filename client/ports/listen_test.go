package ports_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/ports"
	"github.com/tetherexec/tether/internal/cable"
	engine "github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// listening starts a server that listens for clients.
func listening(t testing.TB) (url string) {
	t.Helper()
	return tethertest.StartServer(t, server.Config{ForwardReverse: engine.Loopback}).URL
}

// listen lets the server listen on any port, and forwards what comes to the target until the test ends or stop is called, which returns what Serve has returned.
func listen(t testing.TB, c *client.Client, to ports.Target) (address string, failures reports, stop func() error) {
	t.Helper()
	l, err := ports.Of(c).Listen(tethertest.Within(t), ports.Target{Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	failures = make(reports, 2*ports.MaxOpen)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	var served error
	serving.Go(func() { served = l.Serve(ctx, to, func(err error) { failures <- err }) }) // ends with ctx
	stop = func() error {
		cancel()
		serving.Wait()
		return served
	}
	t.Cleanup(func() { stop() })
	return net.JoinHostPort(l.Addresses[0], strconv.Itoa(int(l.Port))), failures, stop
}

// Whichever message is lost, no byte of a connection that comes from the server's machine is, and none comes twice.
func TestListenCuts(t *testing.T) {
	t.Parallel()
	size := tethertest.Scaled(int64(256<<10), 64<<20)
	for _, cut := range []struct {
		name   string
		from   cable.Direction
		match  cable.Match
		action cable.Action
	}{
		{"before the answer to a listen", cable.FromServer, cable.Answer(wire.MethodPortListen).Times(2), cable.SeverBefore},
		{"behind accepts", cable.FromClient, cable.Method(wire.MethodPortAccept).Times(2), cable.SeverAfter},
		{"before the answer to an accept", cable.FromServer, cable.Answer(wire.MethodPortAccept).Times(3), cable.SeverBefore},
		{"behind the answer to an accept", cable.FromServer, cable.Answer(wire.MethodPortAccept).Times(2), cable.SeverAfter},
		{"before bytes from there", cable.FromServer, cable.Method(wire.NotePortData).Every(3), cable.SeverBefore},
		{"behind bytes from here", cable.FromClient, cable.Method(wire.NotePortWrite).Every(3), cable.ResetAfter},
		{"before the end from there", cable.FromServer, cable.Method(wire.NotePortData).Where(hasEnd).Times(2), cable.SeverBefore},
		{"before the answer to a close", cable.FromServer, cable.Answer(wire.MethodPortClose).Times(2), cable.SeverBefore},
	} {
		t.Run(cut.name, func(t *testing.T) {
			t.Parallel()
			c := tethertest.LayCable(t, listening(t))
			rule := c.On(cut.from, cut.match, cut.action)
			closed := c.On(cable.FromServer, cable.Answer(wire.MethodPortClose).Always())
			address, failures, _ := listen(t, dial(t, c.URL()), target(t, echo))
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

// Many programs connect at once, also while the client is away.
func TestListenManyConnections(t *testing.T) {
	t.Parallel()
	c := tethertest.LayCable(t, listening(t))
	address, _, _ := listen(t, dial(t, c.URL()), target(t, echo))
	conns := make([]*net.TCPConn, tethertest.Scaled(100, 500))
	for i := range conns {
		if i == len(conns)/2 {
			c.Sever()
		}
		conns[i] = connect(t, address)
		if _, err := conns[i].Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, conn := range conns {
		if b := make([]byte, 1); must(io.ReadFull(conn, b)) != nil || b[0] != byte(i) {
			t.Fatalf("connection %d: %v", i, b)
		}
	}
	for i, conn := range conns {
		if err := roundTrip(conn, []byte(fmt.Sprint("again ", i))); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
}

func must[T any](_ T, err error) error { return err }

// A program that never reads blocks no other one.
func TestListenReaderThatNeverReads(t *testing.T) {
	t.Parallel()
	c := dial(t, listening(t))
	flood, _, _ := listen(t, c, target(t, func(conn *net.TCPConn) { io.Copy(conn, tethertest.Pattern(1, 1<<40)) }))
	stuck := connect(t, flood)
	if _, err := io.ReadFull(stuck, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	other, _, _ := listen(t, c, target(t, echo))
	if err := roundTrip(connect(t, other), tethertest.PatternBytes(t, 2*engine.Window)); err != nil {
		t.Error(err)
	}
	stuck.Close()
}

// A target here that refuses a connection resets the one there, and others go on.
func TestListenRefusedTarget(t *testing.T) {
	t.Parallel()
	// A port that was free a moment ago may be that of another test.
	address, failures, _ := listen(t, dial(t, listening(t)), ports.Target{Port: 1})
	for range 6 { // more than it asks for at a time
		from := ""
		if conn, err := net.Dial("tcp", address); err == nil { // it may be reset already
			from = conn.LocalAddr().String()
			if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || err == io.EOF {
				t.Errorf("%d bytes, %v", n, err)
			}
			conn.Close()
		}
		if err := <-failures; !strings.HasPrefix(err.Error(), "connection from "+from) || !strings.Contains(err.Error(), " to localhost:") {
			t.Errorf("reported: %v", err)
		}
	}
}

// A listener ends with its context: connections are reset, the port is free, and the session can listen there again. It ends with the client, too.
func TestListenerEnds(t *testing.T) {
	t.Parallel()
	c := dial(t, listening(t))
	address, _, stop := listen(t, c, target(t, echo))
	conn := connect(t, address)
	conn.Write([]byte("x"))
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("after the end: %v", err)
	}
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.ParseUint(port, 10, 16)
	l, err := ports.Of(c).Listen(tethertest.Within(t), ports.Target{Host: "127.0.0.1", Port: uint16(number)})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- l.Serve(context.Background(), ports.Target{Port: 1}, nil) }() // ends with the client
	c.Close()
	if err := <-served; !errors.Is(err, client.ErrClosed) {
		t.Error(err)
	}
}

// What a server refuses is an error with a reason.
func TestListenRefusals(t *testing.T) {
	t.Parallel()
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	c := dial(t, listening(t))
	for _, try := range []struct {
		at           ports.Target
		reason, text string
	}{
		{ports.Target{Host: "127.0.0.1", Port: uint16(used.Addr().(*net.TCPAddr).Port)}, wire.ErrorPortRefused, "another program uses the port"},
		{ports.Target{Host: "0.0.0.0"}, wire.ErrorPortDenied, "only its loopback addresses"},
		{ports.Target{Host: "::"}, wire.ErrorPortDenied, "only its loopback addresses"},
		{ports.Target{Host: "example.test"}, wire.ErrorPortDenied, "only its loopback addresses"},
	} {
		_, err := ports.Of(c).Listen(tethertest.Within(t), try.at)
		if refusal, ok := errors.AsType[*client.ServerError](err); !ok || refusal.Reason != try.reason || !strings.Contains(err.Error(), try.text) {
			t.Errorf("%v: %v", try.at, err)
		}
	}
	for range ports.MaxListeners {
		if _, err := ports.Of(c).Listen(tethertest.Within(t), ports.Target{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ports.Of(c).Listen(tethertest.Within(t), ports.Target{}); err == nil || !strings.Contains(err.Error(), "limit reached: 32 listeners") {
		t.Errorf("one too many: %v", err)
	}
	none := dial(t, tethertest.StartServer(t, server.Config{}).URL)
	if _, err := ports.Of(none).Listen(tethertest.Within(t), ports.Target{}); !errors.Is(err, client.ErrUnsupported) {
		t.Errorf("a server that does not listen: %v", err)
	}
}
