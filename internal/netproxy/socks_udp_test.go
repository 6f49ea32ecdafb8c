package netproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// A udpServer records each datagram and answers it with "re: " and the datagram.
type udpServer struct {
	*net.UDPConn
	port uint16
	got  chan string
	from chan netip.AddrPort
}

func newUDPServer(t *testing.T) *udpServer {
	t.Helper()
	s := &udpServer{UDPConn: listenUDP(t), got: make(chan string, 1000), from: make(chan netip.AddrPort, 1000)}
	s.port = addrPort(s.LocalAddr()).Port()
	done := make(chan struct{})
	t.Cleanup(func() { s.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, maxDatagram)
		for {
			n, from, err := s.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			s.from <- from
			s.got <- string(buf[:n])
			s.WriteToUDPAddrPort([]byte("re: "+string(buf[:n])), from)
		}
	}()
	return s
}

func listenUDP(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(socksTestTime))
	return c
}

// A udpClient is a client's two sockets of an association.
type udpClient struct {
	*net.UDPConn
	t     *testing.T
	tcp   *net.TCPConn
	relay netip.AddrPort
}

func (st *socksTest) associate() *udpClient {
	st.t.Helper()
	tcp, code, relay := st.request(socksAssociate, ipAddr("0.0.0.0", 0))
	if code != socksOK || relay.Addr() != netip.MustParseAddr("127.0.0.1") || relay.Port() == 0 {
		st.t.Fatalf("reply %d, bound to %v", code, relay)
	}
	return &udpClient{listenUDP(st.t), st.t, tcp, relay}
}

// send sends a datagram to the relay, with reserved bytes, fragment and address
// before it.
func (c *udpClient) send(to, payload string) { c.sendRaw("\x00\x00\x00" + to + payload) }

func (c *udpClient) sendRaw(datagram string) {
	c.t.Helper()
	if _, err := c.WriteToUDPAddrPort([]byte(datagram), c.relay); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the next answer and its peer.
func (c *udpClient) receive() (from socksAddr, payload string) {
	c.t.Helper()
	buf := make([]byte, maxDatagram)
	n, sender, err := c.ReadFromUDPAddrPort(buf)
	if err != nil {
		c.t.Fatal(err)
	}
	from, fragment, data, err := parseSocksDatagram(buf[:n])
	if err != nil || fragment != 0 || sender != c.relay {
		c.t.Fatalf("from %v: fragment %d, %v", sender, fragment, err)
	}
	return from, string(data)
}

// wantAnswer checks that the next datagram to arrive is this one.
func (c *udpClient) wantAnswer(port uint16, payload string) {
	c.t.Helper()
	from, got := c.receive()
	if from != (socksAddr{"127.0.0.1", port}) || got != payload {
		c.t.Errorf("got %.40q from %v, want %.40q", got, from, payload)
	}
}

func TestSocksUDP(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, nil)
	server, other := newUDPServer(t), newUDPServer(t)
	c := st.associate()
	for _, test := range []struct {
		to, host string
		server   *udpServer
	}{
		{ipAddr("127.0.0.1", server.port), "127.0.0.1", server},
		{ipAddr("127.0.0.1", other.port), "127.0.0.1", other},
		{domainAddr("Here.example.", server.port), "here.example", server},
	} {
		for _, payload := range []string{"one", "two", ""} {
			c.send(test.to, payload)
			c.wantAnswer(test.server.port, "re: "+payload)
			if got := <-test.server.got; got != payload {
				t.Errorf("the server got %q", got)
			}
		}
		// One decision for three datagrams.
		e := st.event()
		want := netpolicy.Query{Protocol: netpolicy.SocksUDP, Host: test.host, Port: test.server.port}
		if e.Query != want || !e.Decision.Allowed || e.Client != c.LocalAddr().String() {
			t.Errorf("reported %+v", e)
		}
		st.noEvent()
	}
}

// Refused or malformed datagrams are dropped, and nothing of them is sent.
func TestSocksUDPDropped(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, nil)
	server := newUDPServer(t)
	c := st.associate()
	here := ipAddr("127.0.0.1", server.port)
	c.send(domainAddr("other.example", server.port), "not allowed")
	if e := st.event(); e.Decision.Allowed || e.Decision.Reason != netpolicy.NotAllowed || e.Query.Host != "other.example" {
		t.Errorf("reported %+v", e)
	}
	c.send(domainAddr("denied.example", server.port), "denied")
	if e := st.event(); e.Decision.Allowed || e.Decision.Reason != netpolicy.Denied {
		t.Errorf("reported %+v", e)
	}
	c.send(domainAddr("denied.example", server.port), "denied again: remembered")
	c.sendRaw("")
	c.sendRaw("\x00\x00\x00")
	c.sendRaw("\x00\x01\x00" + here + "reserved")
	c.sendRaw("\x00\x00\x01" + here + "fragment")
	c.sendRaw("\x00\x00\x80" + here + "last fragment")
	c.sendRaw("\x00\x00\x00\x02abcdef")
	c.sendRaw("\x00\x00\x00\x03\xffshort")
	c.send(domainAddr("", server.port), "no host")
	c.send(domainAddr("here.example\x00", server.port), "NUL")
	c.send(domainAddr(strings.Repeat("a", 255), server.port), "long")
	c.send(here, "good")
	c.wantAnswer(server.port, "re: good")
	if got := <-server.got; got != "good" || len(server.got) > 0 {
		t.Errorf("the server got %q and %d more", got, len(server.got))
	}
	if e := st.event(); !e.Decision.Allowed {
		t.Errorf("reported %+v", e)
	}
	st.noEvent()
}

func TestSocksUDPRefusedByMode(t *testing.T) {
	limited := local()
	limited.Mode = netpolicy.Limited
	st := newSocksTest(t, limited, Config{SocksUDP: true}, nil)
	server := newUDPServer(t)
	c := st.associate()
	c.send(ipAddr("127.0.0.1", server.port), "x")
	if e := st.event(); e.Decision.Allowed || e.Decision.Source != netpolicy.ModeGuard {
		t.Errorf("reported %+v", e)
	}
	if len(server.got) > 0 {
		t.Error("it was sent")
	}
}

// Only the client that sent first, or that was announced, is served.
func TestSocksUDPOtherClient(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, nil)
	server := newUDPServer(t)
	here := ipAddr("127.0.0.1", server.port)
	check := func(c, thief *udpClient) {
		t.Helper()
		thief.send(here, "stolen")
		c.send(here, "mine")
		c.wantAnswer(server.port, "re: mine")
		if got := <-server.got; got != "mine" || len(server.got) > 0 {
			t.Errorf("the server got %q and %d more", got, len(server.got))
		}
	}
	c := st.associate()
	c.send(here, "first")
	c.wantAnswer(server.port, "re: first")
	<-server.got
	check(c, &udpClient{listenUDP(t), t, nil, c.relay})

	own := listenUDP(t)
	tcp, _, relay := st.request(socksAssociate, ipAddr("127.0.0.1", addrPort(own.LocalAddr()).Port()))
	check(&udpClient{own, t, tcp, relay}, &udpClient{listenUDP(t), t, nil, relay})

	// A malformed first datagram does not make its sender the client.
	c = st.associate()
	thief := &udpClient{listenUDP(t), t, nil, c.relay}
	thief.sendRaw("nonsense")
	check(c, &udpClient{thief.UDPConn, t, nil, netip.MustParseAddrPort("127.0.0.1:9")})
}

// Only peers to which the client has sent can answer.
func TestSocksUDPUnknownPeerIsDropped(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, nil)
	server := newUDPServer(t)
	c := st.associate()
	c.send(ipAddr("127.0.0.1", server.port), "x")
	c.wantAnswer(server.port, "re: x")
	outside := <-server.from
	if _, err := listenUDP(t).WriteToUDPAddrPort([]byte("surprise"), outside); err != nil {
		t.Fatal(err)
	}
	server.WriteToUDPAddrPort([]byte("late answer"), outside)
	c.wantAnswer(server.port, "late answer")
}

func TestSocksUDPLarge(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, nil)
	server := newUDPServer(t)
	c := st.associate()
	here := ipAddr("127.0.0.1", server.port)
	const most = 65507 // that IPv4 carries
	payload := strings.Repeat("x", most-10-len("re: "))
	c.send(here, payload)
	c.wantAnswer(server.port, "re: "+payload)
	outside := <-server.from
	if _, err := server.WriteToUDPAddrPort(make([]byte, most), outside); err != nil { // too large with a header
		t.Fatal(err)
	}
	c.send(here, "next")
	c.wantAnswer(server.port, "re: next")
}

// The relay ends with the TCP connection.
func TestSocksUDPEndsWithConnection(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, func(s *socksServer) { s.limits.associations = 1 })
	c := st.associate()
	if _, code, _ := st.request(socksAssociate, ipAddr("0.0.0.0", 0)); code != socksFailure {
		t.Error("one too many: reply", code)
	}
	c.tcp.Write(make([]byte, 4096)) // is ignored
	c.tcp.CloseWrite()
	if _, err := io.ReadAll(c.tcp); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Log(err) // it has ended, with a reset or without
	}
	again, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(c.relay)) // its port is free
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	st.associate()
}

func TestSocksUDPIdle(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, func(s *socksServer) { s.limits.idle = 50 * time.Millisecond })
	c := st.associate()
	if _, err := io.ReadAll(c.tcp); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("an idle association stays")
	}
}

// A decision is made again when it is old, and when it was dropped to make
// room.
func TestSocksUDPVerdicts(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, func(s *socksServer) { s.limits.verdictAge = 0 })
	server := newUDPServer(t)
	c := st.associate()
	for range 3 {
		c.send(ipAddr("127.0.0.1", server.port), "x")
		c.wantAnswer(server.port, "re: x")
		st.event()
	}

	st = newSocksTest(t, local(), Config{SocksUDP: true}, func(s *socksServer) {
		s.limits.verdicts, s.limits.deciding = 2, 1
	})
	c = st.associate()
	second, third := newUDPServer(t), newUDPServer(t)
	for i, step := range []struct {
		to      *udpServer
		decided bool
	}{{server, true}, {second, true}, {server, false}, {third, true}, {second, false}, {server, true}} {
		c.send(ipAddr("127.0.0.1", step.to.port), "x")
		c.wantAnswer(step.to.port, "re: x") // by then the decision is made
		if !step.decided {
			st.noEvent()
		} else if e := st.event(); e.Query.Port != step.to.port {
			t.Errorf("datagram %d: reported %+v", i, e)
		}
	}
}

// A peer that was dropped to make room cannot answer any more.
func TestSocksUDPPeers(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, func(s *socksServer) { s.limits.peers = 1 })
	first, second := newUDPServer(t), newUDPServer(t)
	c := st.associate()
	c.send(ipAddr("127.0.0.1", first.port), "x")
	c.wantAnswer(first.port, "re: x")
	c.send(ipAddr("127.0.0.1", second.port), "y")
	c.wantAnswer(second.port, "re: y")
	outside := <-second.from
	first.WriteToUDPAddrPort([]byte("too late"), outside)
	second.WriteToUDPAddrPort([]byte("in time"), outside)
	c.wantAnswer(second.port, "in time")
}

// No datagram waits for the decision about another destination, and few wait for
// their own.
func TestSocksUDPSlowDecision(t *testing.T) {
	asked := make(chan string, 10)
	answer := make(chan struct{})
	st := newSocksTest(t, local(), Config{
		SocksUDP: true,
		Ask: func(ctx context.Context, q netpolicy.Query) (netpolicy.Decision, error) {
			asked <- q.Host
			<-answer
			return netpolicy.Decision{Allowed: true, Source: netpolicy.Decider}, nil
		},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	}, func(s *socksServer) { s.limits.deciding = 2 })
	server := newUDPServer(t)
	c := st.associate()
	c.send(ipAddr("127.0.0.1", server.port), "known")
	c.wantAnswer(server.port, "re: known")
	<-server.got
	waiting := st.server.limits.waiting
	for i := range waiting + 3 {
		c.send(domainAddr("asked.example", server.port), string(rune('a'+i)))
	}
	<-asked
	c.send(domainAddr("second.example", server.port), "2")
	<-asked
	c.send(domainAddr("third.example", server.port), "dropped")
	c.send(ipAddr("127.0.0.1", server.port), "known")
	c.wantAnswer(server.port, "re: known") // and everything before it was handled
	<-server.got
	close(answer)
	got := map[string]bool{}
	for range waiting + 1 {
		_, payload := c.receive()
		got[payload] = true
	}
	c.send(ipAddr("127.0.0.1", server.port), "known")
	c.wantAnswer(server.port, "re: known")
	if !got["re: a"] || !got["re: 2"] || got["re: dropped"] || len(got) != waiting+1 || len(asked) > 0 {
		t.Errorf("got %v", got)
	}
}

// A datagram to a relay would go in circles.
func TestSocksUDPToRelay(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, nil)
	server := newUDPServer(t)
	c, other := st.associate(), st.associate()
	here := ipAddr("127.0.0.1", server.port)
	c.send(ipAddr("127.0.0.1", other.relay.Port()), "\x00\x00\x00"+here+"in circles")
	st.event()
	other.send(here, "mine") // it is still the first client
	other.wantAnswer(server.port, "re: mine")
	if got := <-server.got; got != "mine" {
		t.Errorf("the server got %q", got)
	}
}

// Another address is another client, even with the same port.
func TestSocksUDPOtherHost(t *testing.T) {
	st := newSocksTest(t, local(), Config{SocksUDP: true}, nil)
	server := newUDPServer(t)
	c := st.associate()
	elsewhere := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), addrPort(c.LocalAddr()).Port())
	stranger, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(elsewhere))
	if err != nil {
		t.Skip("no second loopback address:", err)
	}
	defer stranger.Close()
	here := ipAddr("127.0.0.1", server.port)
	(&udpClient{stranger, t, nil, c.relay}).send(here, "stolen")
	c.send(here, "mine")
	c.wantAnswer(server.port, "re: mine")
	if got := <-server.got; got != "mine" || len(server.got) > 0 {
		t.Errorf("the server got %q and %d more", got, len(server.got))
	}
}

// The same over IPv6: listener, relay and peer.
func TestSocksUDPIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6:", err)
	}
	rules := local()
	rules.Domains["::1"] = netpolicy.Allow
	st := newSocksTest(t, rules, Config{SocksUDP: true}, nil)
	st.server.proxy.run(func() { st.server.proxy.ServeSocks(l) })
	st.addr = l.Addr().String()
	tcp, code, relay := st.request(socksAssociate, ipAddr("::", 0))
	if code != socksOK || relay.Addr() != netip.IPv6Loopback() {
		t.Fatalf("reply %d, bound to %v", code, relay)
	}
	loopback := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.IPv6Loopback(), 0))
	own, err := net.ListenUDP("udp", loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	peer, err := net.ListenUDP("udp", loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	own.SetDeadline(time.Now().Add(socksTestTime))
	peer.SetDeadline(time.Now().Add(socksTestTime))

	c := &udpClient{own, t, tcp, relay}
	port := addrPort(peer.LocalAddr()).Port()
	c.send(ipAddr("::1", port), "six")
	buf := make([]byte, 100)
	n, from, err := peer.ReadFromUDPAddrPort(buf)
	if err != nil || string(buf[:n]) != "six" {
		t.Fatalf("the peer got %q, %v", buf[:n], err)
	}
	peer.WriteToUDPAddrPort([]byte("re: six"), from)
	if from, got := c.receive(); from != (socksAddr{"::1", port}) || got != "re: six" {
		t.Errorf("got %q from %v", got, from)
	}
}
