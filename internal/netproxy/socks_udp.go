package netproxy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// udpLimits bound the cost of a SOCKS5 client's datagrams.
type udpLimits struct {
	associations int           // at a time, per listener
	idle         time.Duration // an association without a datagram in either direction ends
	verdicts     int           // destinations of an association whose decision is remembered
	verdictAge   time.Duration // after which the decision is made again
	deciding     int           // decisions in progress per association
	waiting      int           // datagrams that wait for one decision; further ones are dropped
	peers        int           // from which an association accepts replies
	peerIdle     time.Duration // a peer to which nothing was sent for so long is forgotten
}

var defaultUDPLimits = udpLimits{
	associations: 64,
	idle:         10 * time.Minute,
	verdicts:     256,
	verdictAge:   30 * time.Second,
	deciding:     16,
	waiting:      4,
	peers:        256,
	peerIdle:     5 * time.Minute,
}

// maxDatagram holds any datagram: none is truncated.
const maxDatagram = 64 << 10

// An association carries the datagrams of one client. It lives as long as the client's TCP
// connection.
//
// As on any network a datagram may get lost: datagrams that are refused, malformed,
// fragments, too large, or beyond a limit are dropped, and the association continues.
type association struct {
	server  *socksServer
	ctx     context.Context // ends with the association
	inside  *net.UDPConn    // for the client's datagrams
	outside *net.UDPConn    // for the peers' datagrams
	host    netip.Addr      // the client's
	workers sync.WaitGroup

	mu       sync.Mutex
	port     uint16 // the client's; 0: unknown until its first datagram
	active   time.Time
	verdicts map[socksAddr]*destination
	deciding int
	peers    map[netip.AddrPort]time.Time // when each was last sent a datagram
}

// A destination is an address to which a client sends datagrams, with the decision about it.
type destination struct {
	expires time.Time        // zero: still being decided
	waiting [][]byte         // payloads that wait for the decision
	to      []netip.AddrPort // the first that can be sent to is used; none: refused
}

// associate relays a client's datagrams until it hangs up. The relay is bound beside the
// listener, in the network namespace of this process; a client in another namespace cannot
// reach it (see Config.SocksUDP).
func (s *socksServer) associate(c net.Conn, hint socksAddr) {
	ctx, cancel := context.WithCancel(s.proxy.ctx)
	defer cancel()
	a := &association{
		server:   s,
		ctx:      ctx,
		host:     addrPort(c.RemoteAddr()).Addr(),
		active:   time.Now(),
		verdicts: map[socksAddr]*destination{},
		peers:    map[netip.AddrPort]time.Time{},
	}
	// A client that knows its sending address announces it, or else port 0.
	if ip, err := netip.ParseAddr(hint.host); err == nil && (ip.IsUnspecified() || ip == a.host) {
		a.port = hint.port
	}
	local := addrPort(c.LocalAddr())
	if !local.IsValid() || !a.host.IsValid() { // not TCP
		s.fail(c, socksUnknownCommand)
		return
	}
	closeSockets, err := a.open(local.Addr())
	if err == nil {
		defer closeSockets()
		err = s.add(a)
	}
	if err != nil {
		s.proxy.config.Log.Warn("SOCKS datagrams", "err", err)
		s.fail(c, socksFailure)
		return
	}
	defer s.remove(a)
	if s.answer(c, socksOK, addrPort(a.inside.LocalAddr())) != nil {
		return
	}
	a.workers.Go(a.fromClient) // ends when its socket is closed
	a.workers.Go(a.fromPeers)  // likewise
	a.hold(c)
	cancel()
	closeSockets()
	a.workers.Wait()
}

// open opens the sockets. The returned function closes them, any number of times.
func (a *association) open(local netip.Addr) (closeSockets func(), err error) {
	p := a.server.proxy
	a.inside, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return nil, err
	}
	inside, err := p.track(a.inside, nil)
	if err != nil {
		return nil, err
	}
	a.outside, err = net.ListenUDP("udp", nil)
	if err != nil {
		inside.Close()
		return nil, err
	}
	outside, err := p.track(a.outside, nil)
	if err != nil {
		inside.Close()
		return nil, err
	}
	return func() { inside.Close(); outside.Close() }, nil
}

var errAssociations = errors.New("too many associations")

func (s *socksServer) add(a *association) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.associations) >= s.limits.associations {
		return errAssociations
	}
	s.associations[a] = struct{}{}
	return nil
}

func (s *socksServer) remove(a *association) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.associations, a)
}

// relaysAt reports whether an address belongs to a relay. Two associations that are
// each other's clients would send a datagram in circles.
func (s *socksServer) relaysAt(to netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.associations {
		in, out := addrPort(a.inside.LocalAddr()), addrPort(a.outside.LocalAddr())
		here := to.Addr().IsLoopback() || to.Addr().IsUnspecified() || to.Addr() == in.Addr()
		if here && (to.Port() == in.Port() || to.Port() == out.Port()) {
			return true
		}
	}
	return false
}

// hold returns when the client hangs up or the association has been idle for too long.
func (a *association) hold(c net.Conn) {
	var scrap [512]byte // a client has nothing to send here
	for {
		a.mu.Lock()
		end := a.active.Add(a.server.limits.idle)
		a.mu.Unlock()
		if !time.Now().Before(end) {
			return
		}
		c.SetReadDeadline(end)
		if _, err := c.Read(scrap[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// fromClient receives the client's datagrams until the socket is closed.
func (a *association) fromClient() {
	buf := make([]byte, maxDatagram)
	receive(a.inside, buf, func(n int, from netip.AddrPort) { a.forward(buf[:n], from) })
}

// receive reads datagrams into buf until the socket is closed or broken. Some systems
// report the error of an earlier write at a read, so a single error is ignored.
func receive(c *net.UDPConn, buf []byte, take func(n int, from netip.AddrPort)) {
	const broken = 64 // errors without a datagram between them
	for failed := 0; failed < broken; failed++ {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			failed = 0
			take(n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
		}
	}
}

// forward sends a client's datagram, now or when its destination has been decided.
func (a *association) forward(datagram []byte, from netip.AddrPort) {
	if from.Addr() != a.host {
		return
	}
	to, fragment, payload, err := parseSocksDatagram(datagram)
	if err != nil || fragment != 0 {
		return
	}
	a.mu.Lock()
	if a.port == 0 {
		a.port = from.Port()
	}
	if from.Port() != a.port {
		a.mu.Unlock()
		return
	}
	now := time.Now()
	a.active = now
	v := a.verdicts[to]
	if v != nil && (v.expires.IsZero() || now.Before(v.expires)) {
		if v.expires.IsZero() && len(v.waiting) < a.server.limits.waiting {
			v.waiting = append(v.waiting, bytes.Clone(payload))
		}
		a.mu.Unlock()
		a.send(v.to, payload) // to no address, while it is being decided
		return
	}
	a.begin(to, payload, from)
	a.mu.Unlock()
}

// begin starts the decision about a destination in the background; a.mu is
// held.
func (a *association) begin(to socksAddr, payload []byte, from netip.AddrPort) {
	limits := a.server.limits
	if a.deciding >= limits.deciding {
		return
	}
	delete(a.verdicts, to) // an expired one
	if len(a.verdicts) >= limits.verdicts {
		a.forgetVerdict()
	}
	v := &destination{waiting: [][]byte{bytes.Clone(payload)}}
	a.verdicts[to] = v
	a.deciding++
	a.workers.Go(func() { // ends with the decision, which ends with a.ctx
		addresses := a.decide(to, from)
		a.mu.Lock()
		a.deciding--
		waiting := v.waiting
		settled := &destination{expires: time.Now().Add(limits.verdictAge), to: addresses}
		a.verdicts[to] = settled
		a.mu.Unlock()
		for _, payload := range waiting {
			a.send(addresses, payload)
		}
	})
}

// forgetVerdict makes room for a verdict; a.mu is held. There are fewer undecided ones
// than there is room.
func (a *association) forgetVerdict() {
	var oldest socksAddr
	var expires time.Time
	for to, v := range a.verdicts {
		if !v.expires.IsZero() && (expires.IsZero() || v.expires.Before(expires)) {
			oldest, expires = to, v.expires
		}
	}
	delete(a.verdicts, oldest)
}

// decide returns the addresses of a destination; none if it is refused.
func (a *association) decide(to socksAddr, from netip.AddrPort) []netip.AddrPort {
	q, err := to.query(netpolicy.SocksUDP)
	if err != nil {
		a.server.notAName(to, err)
		return nil
	}
	r, err := a.server.proxy.decide(a.ctx, q, net.UDPAddrFromAddrPort(from))
	if err != nil {
		return nil
	}
	if r.upstream != nil {
		// Datagrams do not pass through a proxy, and they must not bypass it.
		a.server.proxy.config.Log.Debug("no datagrams through an upstream proxy", "host", q.Host)
		return nil
	}
	for _, address := range r.addresses {
		if a.server.relaysAt(address) {
			return nil
		}
	}
	return r.addresses
}

// send sends a payload to the first of these addresses that is reachable.
func (a *association) send(to []netip.AddrPort, payload []byte) {
	for _, address := range to {
		a.expect(address)
		if _, err := a.outside.WriteToUDPAddrPort(payload, address); err == nil {
			return
		}
	}
}

// expect notes a peer that may answer.
func (a *association) expect(peer netip.AddrPort) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.peers[peer]; !ok && len(a.peers) >= a.server.limits.peers {
		var oldest netip.AddrPort
		var sent time.Time
		for p, t := range a.peers {
			if sent.IsZero() || t.Before(sent) {
				oldest, sent = p, t
			}
		}
		delete(a.peers, oldest)
	}
	a.peers[peer] = time.Now()
}

// fromPeers passes answers to the client until the socket is closed.
func (a *association) fromPeers() {
	buf := make([]byte, socksDatagramHead+maxDatagram)
	receive(a.outside, buf[socksDatagramHead:], func(n int, from netip.AddrPort) {
		client, ok := a.expects(from)
		if !ok {
			return
		}
		var head [socksDatagramHead]byte
		h := appendSocksDatagram(head[:0], from)
		start := socksDatagramHead - len(h)
		copy(buf[start:], h)
		// A datagram that is too large with its header is lost.
		a.inside.WriteToUDPAddrPort(buf[start:socksDatagramHead+n], client)
	})
}

// expects reports whether a peer may answer, and returns the client's
// address.
func (a *association) expects(peer netip.AddrPort) (client netip.AddrPort, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sent, ok := a.peers[peer]
	now := time.Now()
	if !ok || now.Sub(sent) > a.server.limits.peerIdle {
		return netip.AddrPort{}, false
	}
	a.active = now
	return netip.AddrPortFrom(a.host, a.port), true
}
