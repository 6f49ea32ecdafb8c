package netproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// socksTestTime bounds the wait for data that must come.
const socksTestTime = testTime

// A socksTest is a proxy with a SOCKS5 listener and the decisions that it made.
type socksTest struct {
	t      *testing.T
	addr   string
	server *socksServer
	events chan Event
}

// newSocksTest starts a proxy; tune, if any, changes its limits.
func newSocksTest(t *testing.T, s netpolicy.Settings, cfg Config, tune func(*socksServer)) *socksTest {
	t.Helper()
	rules, err := netpolicy.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	st := &socksTest{t: t, events: make(chan Event, 1000)}
	cfg.Rules = rules
	cfg.Decided = func(e Event) { st.events <- e }
	if cfg.Resolve == nil {
		cfg.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
			if host == "here.example" || host == "localhost" {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
	}
	p := New(cfg)
	t.Cleanup(p.Close)
	st.server = newSocksServer(p)
	if tune != nil {
		tune(st.server)
	}
	l := listenTCP(t)
	st.addr = l.Addr().String()
	own, err := p.listen(l)
	if err != nil {
		t.Fatal(err)
	}
	p.run(func() { p.acceptAll(own, st.server.client) })
	return st
}

// local allows this machine, by address and by a name.
func local() netpolicy.Settings {
	return netpolicy.Settings{Mode: netpolicy.Full, AllowLocalBinding: true, Domains: map[string]netpolicy.Access{
		"127.0.0.1": netpolicy.Allow, "here.example": netpolicy.Allow, "missing.example": netpolicy.Allow,
		"denied.example": netpolicy.Deny,
	}}
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// echoTCP is a server that sends back everything that it receives, then the word end;
// it reports each connection.
func echoTCP(t *testing.T) (port uint16, accepted chan struct{}) {
	t.Helper()
	l := listenTCP(t)
	accepted = make(chan struct{}, 100)
	var busy sync.WaitGroup
	t.Cleanup(func() { l.Close(); busy.Wait() })
	busy.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			busy.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(socksTestTime))
				io.Copy(c, c)
				io.WriteString(c, "end")
			})
		}
	})
	return addrPort(l.Addr()).Port(), accepted
}

// closedPort returns a port without a listener. No process can listen on it before the
// test is over, because it is the port of a connection.
func closedPort(t *testing.T) uint16 {
	t.Helper()
	l := listenTCP(t)
	t.Cleanup(func() { l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return addrPort(c.LocalAddr()).Port()
}

// dial connects to the proxy.
func (st *socksTest) dial() *net.TCPConn {
	st.t.Helper()
	c, err := net.Dial("tcp", st.addr)
	if err != nil {
		st.t.Fatal(err)
	}
	st.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(socksTestTime))
	return c.(*net.TCPConn)
}

// exchange sends bytes and returns everything that comes back until the proxy
// hangs up.
func (st *socksTest) exchange(send string) string {
	st.t.Helper()
	c := st.dial()
	io.WriteString(c, send)
	got, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		st.t.Fatalf("after %x: %v", got, err)
	}
	return string(got)
}

// request sends a greeting and a command; it returns the connection and the reply's
// code and bound address.
func (st *socksTest) request(command byte, to string) (*net.TCPConn, socksReply, netip.AddrPort) {
	st.t.Helper()
	c := st.dial()
	io.WriteString(c, "\x05\x01\x00"+"\x05"+string([]byte{command})+"\x00"+to)
	code, bound := readReply(st.t, c)
	return c, code, bound
}

// readReply reads the answers to a greeting and to a request.
func readReply(t *testing.T, c net.Conn) (socksReply, netip.AddrPort) {
	t.Helper()
	var method [2]byte
	if _, err := io.ReadFull(c, method[:]); err != nil || method != [2]byte{5, 0} {
		t.Fatalf("method %x: %v", method, err)
	}
	// A reply has the form of a request.
	code, bound, err := readSocksRequest(c)
	if err != nil {
		t.Fatal("reply:", err)
	}
	return socksReply(code), netip.AddrPortFrom(netip.MustParseAddr(bound.host), bound.port)
}

// event returns the next decision.
func (st *socksTest) event() Event {
	st.t.Helper()
	select {
	case e := <-st.events:
		return e
	case <-time.After(socksTestTime):
		st.t.Fatal("no decision was reported")
		panic("unreachable")
	}
}

func (st *socksTest) noEvent() {
	st.t.Helper()
	select {
	case e := <-st.events:
		st.t.Errorf("unexpected decision %+v", e)
	default:
	}
}

func TestSocksConnect(t *testing.T) {
	st := newSocksTest(t, local(), Config{}, nil)
	port, accepted := echoTCP(t)
	for _, test := range []struct{ name, to, host string }{
		{"v4", ipAddr("127.0.0.1", port), "127.0.0.1"},
		{"mapped", ipAddr("::ffff:127.0.0.1", port), "127.0.0.1"},
		{"name", domainAddr("here.example", port), "here.example"},
		{"name as people write it", domainAddr("Here.Example.", port), "here.example"},
		{"address as a name", domainAddr("127.0.0.1", port), "127.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			st.t = t
			c, code, bound := st.request(socksConnect, test.to)
			if code != socksOK || bound.Addr() != netip.MustParseAddr("127.0.0.1") || bound.Port() == 0 {
				t.Fatalf("reply %d, bound to %v", code, bound)
			}
			<-accepted
			io.WriteString(c, "hello ")
			c.CloseWrite() // is passed on; the response comes all the same
			if got, err := io.ReadAll(c); string(got) != "hello end" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			e := st.event()
			want := netpolicy.Query{Protocol: netpolicy.SocksTCP, Host: test.host, Port: port}
			if !e.Decision.Allowed || e.Query != want || e.Client != c.LocalAddr().String() ||
				e.Address != netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port) {
				t.Errorf("reported %+v", e)
			}
		})
	}
}

// A client may send more before it has the responses.
func TestSocksPipelined(t *testing.T) {
	st := newSocksTest(t, local(), Config{}, nil)
	port, _ := echoTCP(t)
	c := st.dial()
	early := strings.Repeat("early ", socksEarly) // more than is read ahead
	io.WriteString(c, "\x05\x02\x02\x00"+"\x05\x01\x00"+ipAddr("127.0.0.1", port)+early)
	c.CloseWrite()
	if code, _ := readReply(t, c); code != socksOK {
		t.Fatal("reply", code)
	}
	if got, err := io.ReadAll(c); string(got) != early+"end" || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// If a client hangs up, the question on its behalf ends.
func TestSocksHangUp(t *testing.T) {
	asked, over := make(chan struct{}), make(chan struct{})
	st := newSocksTest(t, local(), Config{Ask: func(ctx context.Context, _ netpolicy.Query) (netpolicy.Decision, error) {
		defer close(over)
		close(asked)
		<-ctx.Done()
		return netpolicy.Decision{}, ctx.Err()
	}}, nil)
	c := st.dial()
	io.WriteString(c, "\x05\x01\x00"+"\x05\x01\x00"+domainAddr("asked.example", 80))
	<-asked
	c.Close()
	select {
	case <-over:
	case <-time.After(socksTestTime):
		t.Error("the question goes on")
	}
}

func TestSocksByteAtATime(t *testing.T) {
	st := newSocksTest(t, local(), Config{}, nil)
	port, _ := echoTCP(t)
	c := st.dial()
	c.SetNoDelay(true)
	for _, b := range []byte("\x05\x01\x00" + "\x05\x01\x00" + domainAddr("here.example", port) + "x") {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	c.CloseWrite()
	if code, _ := readReply(t, c); code != socksOK {
		t.Fatal("reply", code)
	}
	if got, _ := io.ReadAll(c); string(got) != "xend" {
		t.Errorf("got %q", got)
	}
}

func TestSocksRefused(t *testing.T) {
	port, accepted := echoTCP(t)
	limited := local()
	limited.Mode = netpolicy.Limited
	rebinding := local()
	rebinding.AllowLocalBinding = false
	for _, test := range []struct {
		name   string
		rules  netpolicy.Settings
		to     string
		reason string
	}{
		{"not allowed", local(), domainAddr("other.example", port), netpolicy.NotAllowed},
		{"denied", local(), domainAddr("denied.example", port), netpolicy.Denied},
		{"limited", limited, ipAddr("127.0.0.1", port), netpolicy.MethodNotAllowed},
		{"name of a local address", rebinding, domainAddr("here.example", port), netpolicy.NotAllowedLocal},
		{"metadata", rebinding, ipAddr("169.254.169.254", 80), ""},
		{"mapped", netpolicy.Settings{Mode: netpolicy.Full}, ipAddr("::ffff:127.0.0.1", port), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := newSocksTest(t, test.rules, Config{}, nil)
			c, code, bound := st.request(socksConnect, test.to+"pipelined, and thrown away")
			if code != socksRefused || bound.String() != "0.0.0.0:0" {
				t.Errorf("reply %d, bound to %v", code, bound)
			}
			if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
				t.Errorf("then %q, %v", rest, err)
			}
			e := st.event()
			if e.Decision.Allowed || test.reason != "" && e.Decision.Reason != test.reason ||
				e.Query.Protocol != netpolicy.SocksTCP {
				t.Errorf("reported %+v", e)
			}
			select {
			case <-accepted:
				t.Error("it was connected to")
			default:
			}
		})
	}
}

// A destination that is not a host is not decided about, and no question is
// asked.
func TestSocksNotAHost(t *testing.T) {
	all := netpolicy.Settings{Mode: netpolicy.Full, AllowLocalBinding: true,
		Domains: map[string]netpolicy.Access{"*": netpolicy.Allow}}
	st := newSocksTest(t, all, Config{
		Ask: func(context.Context, netpolicy.Query) (netpolicy.Decision, error) {
			t.Error("Ask was called")
			return netpolicy.Decision{Allowed: true}, nil
		},
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			t.Errorf("resolved %q", host)
			return nil, io.EOF
		},
	}, nil)
	for _, host := range []string{"", strings.Repeat("a", 255), "a\x00b", "\xff\xfe.example", "a b", "a\nb", "here.example\x00.evil"} {
		if _, code, _ := st.request(socksConnect, domainAddr(host, 80)); code != socksRefused {
			t.Errorf("%q: reply %d", host, code)
		}
	}
	st.noEvent()
}

func TestSocksReplies(t *testing.T) {
	st := newSocksTest(t, local(), Config{}, nil)
	for _, test := range []struct {
		name    string
		command byte
		to      string
		want    socksReply
	}{
		{"closed port", socksConnect, ipAddr("127.0.0.1", closedPort(t)), socksConnRefused},
		{"port 0", socksConnect, ipAddr("127.0.0.1", 0), socksConnRefused},
		{"no such name", socksConnect, domainAddr("missing.example", 80), socksNoHost},
		{"the proxy itself", socksConnect, ipAddr("127.0.0.1", netip.MustParseAddrPort(st.addr).Port()), socksRefused},
		{"bind", socksBind, ipAddr("127.0.0.1", 1), socksUnknownCommand},
		{"datagrams when they are off", socksAssociate, ipAddr("0.0.0.0", 0), socksUnknownCommand},
		{"command", 9, ipAddr("127.0.0.1", 1), socksUnknownCommand},
		{"address type", socksConnect, "\x02abc", socksUnknownAddress},
	} {
		c, code, bound := st.request(test.command, test.to)
		if code != test.want || bound.String() != "0.0.0.0:0" {
			t.Errorf("%s: reply %d, bound to %v", test.name, code, bound)
		}
		if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
			t.Errorf("%s: then %q, %v", test.name, rest, err)
		}
	}
	for _, test := range []struct {
		err  error
		want socksReply
	}{
		{&refusedError{}, socksRefused},
		{fmt.Errorf("dial: %w", errLoop), socksRefused},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, socksNoNetwork},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, socksNoHost},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, socksConnRefused},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, socksNoHost},
		{context.DeadlineExceeded, socksNoHost},
		{&net.DNSError{Err: "server misbehaving"}, socksNoHost},
		{io.ErrUnexpectedEOF, socksFailure},
	} {
		if got := socksReplyFor(test.err); got != test.want {
			t.Errorf("%v: reply %d, want %d", test.err, got, test.want)
		}
	}
}

func TestSocksHandshakeGarbage(t *testing.T) {
	st := newSocksTest(t, local(), Config{}, nil)
	port, accepted := echoTCP(t)
	p := string([]byte{byte(port >> 8), byte(port)})
	for _, test := range []struct{ name, send, want string }{
		{"version 4", "\x04\x01" + p + "\x7f\x00\x00\x01me\x00", ""},
		{"HTTP", "CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n", ""},
		{"password", "\x05\x01\x02", "\x05\xff"},
		{"no methods", "\x05\x00", "\x05\xff"},
		{"methods, then more", "\x05\x02\x01\x02" + strings.Repeat("x", 1000), "\x05\xff"},
		{"version changes", "\x05\x01\x00\x04\x01\x00" + ipAddr("127.0.0.1", port), "\x05\x00"},
		{"reserved", "\x05\x01\x00\x05\x01\x01" + ipAddr("127.0.0.1", port), "\x05\x00"},
	} {
		// A reset may drop a response if bytes are left unread.
		if got := st.exchange(test.send); got != test.want && !(got == "" && test.want == "\x05\x00") {
			t.Errorf("%s: got %x", test.name, got)
		}
	}
	whole := "\x05\x01\x00" + "\x05\x01\x00" + domainAddr("here.example", port)
	for cut := range whole { // the client hangs up in the middle
		c := st.dial()
		io.WriteString(c, whole[:cut])
		c.CloseWrite()
		got, err := io.ReadAll(c)
		if len(got) > 2 || err != nil {
			t.Errorf("cut at %d: got %x, %v", cut, got, err)
		}
	}
	st.noEvent()
	select {
	case <-accepted:
		t.Error("something was connected to")
	default:
	}
}

// Single bytes do not keep a handshake open.
func TestSocksHandshakeTime(t *testing.T) {
	st := newSocksTest(t, local(), Config{}, func(s *socksServer) { s.handshake = 100 * time.Millisecond })
	c := st.dial()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, c)
	}()
	io.WriteString(c, "\x05\xff")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 255 - 1 { // would take 2.5 seconds and not be enough
		select {
		case <-ended:
			return
		case <-tick.C:
			c.Write([]byte{1})
		}
	}
	t.Error("the connection is still there")
	c.Close()
	<-ended
}

// deadlines is a connection that records its deadlines.
type deadlines struct {
	*net.TCPConn
	mu          sync.Mutex
	read, write time.Time
	atWrite     time.Time // the deadline for writing at the last Write
}

func (c *deadlines) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *deadlines) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.TCPConn.SetReadDeadline(t)
}

func (c *deadlines) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.TCPConn.SetWriteDeadline(t)
}

func (c *deadlines) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.atWrite = c.write
	c.mu.Unlock()
	return c.TCPConn.Write(b)
}

func (c *deadlines) state() (read, write, atWrite time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read, c.write, c.atWrite
}

// The time limit is for the handshake: it applies neither to a decision nor to a
// tunnel.
func TestSocksSlowDecision(t *testing.T) {
	asked := make(chan struct{})
	answer := make(chan netpolicy.Decision)
	st := newSocksTest(t, local(), Config{
		Ask: func(ctx context.Context, q netpolicy.Query) (netpolicy.Decision, error) {
			close(asked)
			return <-answer, nil
		},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	}, nil)
	port, _ := echoTCP(t)
	l := listenTCP(t)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(socksTestTime))
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server := &deadlines{TCPConn: accepted.(*net.TCPConn)}
	st.server.proxy.run(func() { st.server.client(server) })
	io.WriteString(c, "\x05\x01\x00"+"\x05\x01\x00"+domainAddr("asked.example", port))
	<-asked
	if read, _, _ := server.state(); !read.IsZero() {
		t.Errorf("during the decision the deadline for reading is %v", read)
	}
	decided := time.Now()
	answer <- netpolicy.Decision{Allowed: true, Source: netpolicy.Decider}
	if code, _ := readReply(t, c); code != socksOK {
		t.Fatal("reply", code)
	}
	if _, _, reply := server.state(); reply.Before(decided.Add(socksHandshake)) {
		t.Errorf("the deadline of the reply is %v after the decision", reply.Sub(decided))
	}
	io.WriteString(c, "still here ")
	if got, err := io.ReadAll(io.LimitReader(c, int64(len("still here ")))); string(got) != "still here " || err != nil { // the tunnel works
		t.Errorf("got %q, %v", got, err)
	}
	if read, write, _ := server.state(); !read.IsZero() || !write.IsZero() {
		t.Errorf("the deadlines of a tunnel are %v and %v", read, write)
	}
	c.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "end" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if e := st.event(); !e.Asked || !e.Decision.Allowed || e.Decision.Source != netpolicy.Decider {
		t.Errorf("reported %+v", e)
	}
}

// Close ends handshakes, tunnels and questions, and waits for them.
func TestSocksClose(t *testing.T) {
	asked := make(chan struct{})
	st := newSocksTest(t, local(), Config{
		SocksUDP: true,
		Ask: func(ctx context.Context, q netpolicy.Query) (netpolicy.Decision, error) {
			close(asked)
			<-ctx.Done()
			return netpolicy.Decision{}, ctx.Err()
		},
	}, nil)
	port, _ := echoTCP(t)
	silent := st.dial()
	tunnel, code, _ := st.request(socksConnect, ipAddr("127.0.0.1", port))
	datagrams, code2, _ := st.request(socksAssociate, ipAddr("0.0.0.0", 0))
	if code != socksOK || code2 != socksOK {
		t.Fatal("replies", code, code2)
	}
	waiting := st.dial()
	io.WriteString(waiting, "\x05\x01\x00"+"\x05\x01\x00"+domainAddr("asked.example", port))
	<-asked
	st.server.proxy.Close()
	for _, c := range []net.Conn{silent, tunnel, datagrams, waiting} {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection outlived the proxy")
		}
	}
}
