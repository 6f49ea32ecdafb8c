package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// target listens on loopback until the scene ends, and serves each connection. It returns the port.
func (s *stage) target(serve func(*net.TCPConn)) (port int) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { // ends with the forwarded connection, at the latest with the session
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	s.t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

func echo(conn *net.TCPConn) {
	io.Copy(conn, conn)
	conn.CloseWrite()
}

// serveEcho is a command that echoes what is sent to its port.
func serveEcho() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for {
		conn, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		go func() { // ends with the connection, at the latest with the program
			echo(conn.(*net.TCPConn))
			conn.Close()
		}()
	}
}

// forward lets the client listen, and returns the address. The scene has only one forward.
func (s *stage) forward(to args) (address string) {
	s.t.Helper()
	to["forward"] = "f"
	return fmt.Sprintf("127.0.0.1:%d", s.do("forward", to).Port)
}

func (s *stage) stopForward() { s.do("stopForward", args{"forward": "f"}) }

// dial connects to a port of the client.
func (s *stage) dial(address string) *net.TCPConn {
	s.t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	s.t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// roundTrip sends bytes to an echo, half-closes the connection, and compares what comes back.
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

func hasEnd(m *cable.Message) bool { return bytes.Contains(m.Raw, []byte(`"end":true`)) }

// portsThroughCuts cuts the connection at each kind of message about forwarded connections: no byte is lost, and none comes twice.
func portsThroughCuts(s *stage) {
	s.connected(nil)
	address := s.forward(args{"port": s.target(echo)})
	for _, cut := range []struct {
		name   string
		from   cable.Direction
		match  cable.Match
		action cable.Action
	}{
		{"behind bytes of the target", cable.FromServer, cable.Method(wire.NotePortData).Nth(3), cable.SeverAfter},
		{"before bytes of the target", cable.FromServer, cable.Method(wire.NotePortData).Nth(4), cable.SeverBefore},
		{"behind bytes of the client", cable.FromClient, cable.Method(wire.NotePortWrite).Nth(3), cable.ResetAfter},
		{"before bytes of the client", cable.FromClient, cable.Method(wire.NotePortWrite).Nth(4), cable.ResetBefore},
		{"before an acknowledgement of the server", cable.FromServer, cable.Method(wire.NotePortAcked).Nth(2), cable.SeverBefore},
		{"before the answer to an open", cable.FromServer, cable.Answer(wire.MethodPortOpen), cable.SeverBefore},
		{"before the answer to a close", cable.FromServer, cable.Answer(wire.MethodPortClose), cable.SeverBefore},
		{"before the end of the client", cable.FromClient, cable.Method(wire.NotePortWrite).Where(hasEnd), cable.SeverBefore},
		{"behind the end of the client", cable.FromClient, cable.Method(wire.NotePortWrite).Where(hasEnd), cable.SeverAfter},
		{"before the end of the target", cable.FromServer, cable.Method(wire.NotePortData).Where(hasEnd), cable.SeverBefore},
		{"behind the end of the target", cable.FromServer, cable.Method(wire.NotePortData).Where(hasEnd), cable.SeverAfter},
		{"bytes of the target twice", cable.FromServer, cable.Method(wire.NotePortData).Nth(3), cable.Duplicate},
		{"without bytes of the target", cable.FromServer, cable.Method(wire.NotePortData).Nth(2), cable.Drop},
	} {
		s.roundTrips(cut.name, address, 200_000, s.cable.On(cut.from, cut.match.Times(1), cut.action))
	}
	// Only what is more than a window needs an acknowledgement of the client.
	cut := s.cable.On(cable.FromClient, cable.Method(wire.NotePortAck).Nth(2).Times(1), cable.SeverBefore)
	s.roundTrips("before an acknowledgement of the client", address, ports.Window+100_000, cut)
	s.stopForward()
}

// roundTrips sends bytes on two connections at a time through a cut.
func (s *stage) roundTrips(name, address string, size int64, cut *cable.Rule) {
	s.t.Helper()
	closed := s.cable.On(cable.FromServer, cable.Answer(wire.MethodPortClose).Times(2))
	data := tethertest.PatternBytes(s.t, size)
	var running sync.WaitGroup
	for i := range 2 {
		conn := s.dial(address)
		running.Go(func() {
			if err := roundTrip(conn, data[i*1000:]); err != nil {
				s.t.Errorf("%s: %v", name, err)
			}
		})
	}
	running.Wait()
	if err := closed.Await(tethertest.Within(s.t), 2); err != nil {
		s.t.Errorf("%s: the server was not told to forget the connections: %v", name, err)
	}
	if cut.Count() == 0 {
		s.t.Errorf("%s: there was no cut", name)
	}
}

// lostAcknowledgements loses all acknowledgements of the client until the server may not send more. The client repeats the last one.
func lostAcknowledgements(s *stage) {
	s.connected(nil)
	data := tethertest.PatternBytes(s.t, 2*ports.Window)
	conn := s.dial(s.forward(args{"port": s.target(func(conn *net.TCPConn) { conn.Write(data) })}))
	s.cable.On(cable.FromClient, cable.Method(wire.NotePortAck).OnLink(s.cable.Links()).Always(), cable.Drop)
	got := make([]byte, len(data))
	if _, err := io.ReadFull(conn, got[:ports.Window]); err != nil {
		s.t.Fatal(err)
	}
	s.cable.Sever()
	if _, err := io.ReadFull(conn, got[ports.Window:]); err != nil || !bytes.Equal(got, data) {
		s.t.Errorf("what was read differs from what was sent, %v", err)
	}
	s.stopForward()
}

// halfClosedPorts ends one direction first, while the other one goes on.
func halfClosedPorts(s *stage) {
	s.connected(nil)
	got := make(chan []byte, 1)
	address := s.forward(args{"port": s.target(func(conn *net.TCPConn) {
		io.WriteString(conn, "hello")
		conn.CloseWrite()
		all, _ := io.ReadAll(conn)
		got <- all
	})})
	conn := s.dial(address)
	if hello, err := io.ReadAll(conn); string(hello) != "hello" || err != nil {
		s.t.Fatalf("%q, %v", hello, err)
	}
	s.cable.Sever()
	want := numbers(1, 50_000)
	conn.Write(want)
	conn.Close()
	if all := <-got; !bytes.Equal(all, want) {
		s.t.Errorf("the target has got %d bytes, want %d", len(all), len(want))
	}
	s.stopForward()
	r := s.do("exchange", args{"port": s.target(echo), "first": 1, "last": 50_000})
	if r.summary != sumOf(want) {
		s.t.Errorf("%d bytes came back, want %d", r.Bytes, len(want))
	}
}

// refusedPorts connects to what cannot be reached, and to what the server does not allow.
func refusedPorts(s *stage) {
	s.connected(nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	closed := l.Addr().(*net.TCPAddr).Port
	l.Close()
	for _, to := range []args{{"port": closed}, {"port": 80, "host": "192.0.2.1"}, {"port": 80, "host": "example.test"}, {"port": 0}} {
		s.fails("refused", "exchange", with(with(to, "first", 1), "last", 10))
		if conn, err := net.Dial("tcp", s.forward(to)); err == nil { // it may be reset already
			conn.SetDeadline(time.Now().Add(patience))
			if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || err == io.EOF {
				s.t.Errorf("%v: %d bytes, %v", to, n, err)
			}
			conn.Close()
		}
		s.stopForward()
	}
}

// resetPorts resets one end: the other one sees a reset, behind the bytes that came before.
func resetPorts(s *stage) {
	s.connected(nil)
	read, seen := make(chan struct{}), make(chan error, 1)
	port := s.target(func(conn *net.TCPConn) {
		io.WriteString(conn, "last words")
		<-read
		conn.SetLinger(0)
	})
	conn := s.dial(s.forward(args{"port": port}))
	got := make([]byte, 10)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "last words" {
		s.t.Fatalf("%q, %v", got, err)
	}
	close(read)
	if n, err := conn.Read(got); err == nil || err == io.EOF {
		s.t.Errorf("after the reset: %d bytes, %v", n, err)
	}
	s.stopForward()
	port = s.target(func(conn *net.TCPConn) {
		io.Copy(io.Discard, conn) // a reset that hits bytes on their way may look like an end
		conn.SetLinger(0)
	})
	s.fails("port", "exchange", args{"port": port, "first": 1, "last": 100_000})

	conn = s.dial(s.forward(args{"port": s.target(func(conn *net.TCPConn) {
		io.WriteString(conn, "x")
		_, err := io.Copy(io.Discard, conn)
		seen <- err
	})}))
	if _, err := io.ReadFull(conn, got[:1]); err != nil {
		s.t.Fatal(err)
	}
	conn.SetLinger(0)
	conn.Close()
	if err := <-seen; err == nil {
		s.t.Error("the target saw an end instead of a reset")
	}
	s.stopForward()
}

// stuckPorts has a local program and a target that do not read: other connections and commands go on.
func stuckPorts(s *stage) {
	s.connected(nil)
	flood := s.forward(args{"port": s.target(func(conn *net.TCPConn) { io.Copy(conn, tethertest.Pattern(1, 1<<40)) })})
	stuck := s.dial(flood)
	if _, err := io.ReadFull(stuck, make([]byte, 1)); err != nil {
		s.t.Fatal(err)
	}
	port := s.target(echo)
	r := s.do("exchange", args{"port": port, "first": 1, "last": 300_000}) // more than a window
	if want := sumOf(numbers(1, 300_000)); r.summary != want {
		s.t.Errorf("%d bytes came back, want %d", r.Bytes, want.Bytes)
	}
	s.stopForward() // resets both ends

	over := make(chan struct{})
	deaf := s.dial(s.forward(args{"port": s.target(func(*net.TCPConn) { <-over })}))
	var writing sync.WaitGroup
	writing.Go(func() { io.Copy(deaf, tethertest.Pattern(1, 1<<40)) }) // ends with the connection
	s.do("exchange", args{"port": port, "first": 1, "last": 300_000})
	s.do("start", shell("p", "echo here"))
	s.readAll("p")
	s.stopForward()
	writing.Wait()
	close(over)
}

// manyPorts has many connections at once, and cuts the connection below them.
func manyPorts(s *stage) {
	s.connected(nil)
	address := s.forward(args{"port": s.target(echo)})
	conns := make([]*net.TCPConn, 50)
	for i := range conns {
		conns[i] = s.dial(address)
		conns[i].Write([]byte{byte(i)})
	}
	for i, conn := range conns {
		b := make([]byte, 1)
		if _, err := io.ReadFull(conn, b); err != nil || b[0] != byte(i) {
			s.t.Fatalf("connection %d: %v, %v", i, b, err)
		}
	}
	s.cable.Sever()
	for i, conn := range conns {
		if err := roundTrip(conn, []byte(fmt.Sprint("again ", i))); err != nil {
			s.t.Errorf("connection %d: %v", i, err)
		}
	}
	s.stopForward()
}

// portOfProcess names a process instead of a port, and an address.
func portOfProcess(s *stage) {
	s.connected(nil)
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.do("start", args{"process": "web", "argv": []string{"/usr/bin/env", beEcho + "=1", self}})
	s.do("read", args{"process": "web", "until": "ready\n"})
	if err := roundTrip(s.dial(s.forward(args{"process": "web"})), []byte("hello")); err != nil {
		s.t.Error(err)
	}
	s.stopForward()
	s.do("terminate", args{"process": "web"})
	s.readAll("web")

	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return // this machine has no IPv6
	}
	defer l.Close()
	var serving sync.WaitGroup
	serving.Go(func() { // ends with the connection
		if conn, err := l.Accept(); err == nil {
			echo(conn.(*net.TCPConn))
			conn.Close()
		}
	})
	r := s.do("exchange", args{"host": "::1", "port": l.Addr().(*net.TCPAddr).Port, "first": 1, "last": 1000})
	if r.summary != sumOf(numbers(1, 1000)) {
		s.t.Errorf("%d bytes came back", r.Bytes)
	}
	serving.Wait()
}

// lostPort lets the server forget a connection: it ends on both sides, and new ones are forwarded.
func lostPort(s *stage) {
	s.connected(nil)
	address := s.forward(args{"port": s.target(echo)})
	conn := s.dial(address)
	conn.Write([]byte("x"))
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		s.t.Fatal(err)
	}
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodPortOpen), cable.Fail(wire.CodeInvalidRequest, "the server has lost it"))
	s.cable.Sever()
	if n, err := conn.Read(make([]byte, 1)); err == nil || err == io.EOF {
		s.t.Errorf("the connection goes on: %d bytes, %v", n, err)
	}
	if err := roundTrip(s.dial(address), []byte("the next one")); err != nil {
		s.t.Error(err)
	}
	s.stopForward()
}

// muchThroughPort sends much in both directions while the connection is cut again and again.
func muchThroughPort(s *stage) {
	size, cuts := tethertest.Scaled(int64(3*ports.Window), 64<<20), tethertest.Scaled(4, 20)
	s.connected(nil)
	every := int(size) / wire.MaxPortChunk / (cuts + 1)
	s.cable.On(cable.FromServer, cable.Method(wire.NotePortData).Nth(every).Every(every).Times(cuts), cable.SeverBefore)
	address := s.forward(args{"port": s.target(echo)})
	data := tethertest.PatternBytes(s.t, size)
	begun := time.Now()
	if err := roundTrip(s.dial(address), data); err != nil {
		s.t.Error(err)
	}
	s.t.Logf("%d MB there and back through %d cuts: %.0f MB/s each way", size/1e6, s.cable.Links()-1, float64(size)/1e6/time.Since(begun).Seconds())
	s.through(3)
	s.stopForward()
}
