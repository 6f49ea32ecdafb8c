package netproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// Limits of a SOCKS5 connection that is not a tunnel yet, or will not become one.
const (
	// socksHandshake bounds the whole handshake of a client: single bytes do not
	// extend it.
	socksHandshake = 15 * time.Second

	// socksEarly is how many bytes are read before the client has its response;
	// further bytes wait in the kernel.
	socksEarly = 4 << 10

	// After a refusal the client gets a moment to read it: closing a connection with
	// unread bytes would reset it, and the response might be lost.
	socksLinger      = time.Second
	socksLingerBytes = 64 << 10

	acceptPause = 50 * time.Millisecond // after a failed accept, for example without free descriptors
)

// ServeSocks serves a SOCKS5 proxy on l until Close. It owns l. Without Config.SocksUDP,
// which must be off if l is in another network namespace, it is TCP only.
func (p *Proxy) ServeSocks(l net.Listener) {
	if l, err := p.listen(l); err == nil {
		p.acceptAll(l, newSocksServer(p).client)
	}
}

// A socksServer serves SOCKS5 on one listener.
type socksServer struct {
	proxy     *Proxy
	handshake time.Duration
	limits    udpLimits

	mu           sync.Mutex
	associations map[*association]struct{}
}

func newSocksServer(p *Proxy) *socksServer {
	return &socksServer{
		proxy:        p,
		handshake:    socksHandshake,
		limits:       defaultUDPLimits,
		associations: map[*association]struct{}{},
	}
}

// client serves one connection and closes it. A client that does not speak SOCKS5 gets
// no response.
func (s *socksServer) client(c net.Conn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(s.handshake))
	methods, err := readSocksGreeting(c)
	if err != nil {
		s.garbled(c, err)
		return
	}
	if !bytes.Contains(methods, []byte{socksNoAuth}) {
		c.Write([]byte{socksVersion, socksNoMethods})
		linger(c)
		return
	}
	if _, err := c.Write([]byte{socksVersion, socksNoAuth}); err != nil {
		return
	}
	command, to, err := readSocksRequest(c)
	switch {
	case errors.Is(err, errSocksAddress):
		s.fail(c, socksUnknownAddress)
	case err != nil:
		s.garbled(c, err)
	case command == socksConnect:
		s.connect(c, to)
	case command == socksAssociate && s.proxy.config.SocksUDP:
		s.associate(c, to)
	default:
		s.fail(c, socksUnknownCommand)
	}
}

// connect opens a tunnel to a destination, if the rules allow it.
func (s *socksServer) connect(c net.Conn, to socksAddr) {
	q, err := to.query(netpolicy.SocksTCP)
	if err != nil {
		s.notAName(to, err)
		s.fail(c, socksRefused)
		return
	}
	ctx, cancel := context.WithCancel(s.proxy.ctx)
	defer cancel()
	early := readAhead(c, cancel)
	out, err := s.proxy.dial(ctx, q, c.RemoteAddr())
	sentEarly := early()
	if err != nil {
		s.fail(c, socksReplyFor(err))
		return
	}
	defer out.Close()
	if err := s.answer(c, socksOK, addrPort(out.LocalAddr())); err != nil {
		return
	}
	c.SetDeadline(time.Time{})
	if len(sentEarly) > 0 {
		if _, err := out.Write(sentEarly); err != nil {
			return
		}
	}
	relay(c, out)
}

// readAhead watches a client that waits for its response, and calls gone if it hangs up,
// so that a question on its behalf ends. The returned function ends the watch, and
// returns the bytes that the client has sent early.
func readAhead(c net.Conn, gone func()) (early func() []byte) {
	c.SetReadDeadline(time.Time{})
	buf := make([]byte, socksEarly)
	n := 0
	var reader sync.WaitGroup
	reader.Go(func() { // ends with early, or with c
		for n < len(buf) {
			m, err := c.Read(buf[n:])
			n += m
			switch {
			case err == nil:
				continue
			case err == io.EOF && n > 0: // it has sent everything, and may still read
			case !errors.Is(err, os.ErrDeadlineExceeded):
				gone()
			}
			return
		}
	})
	return func() []byte {
		c.SetReadDeadline(time.Unix(1, 0))
		reader.Wait()
		return buf[:n]
	}
}

// query returns the query for a destination.
func (a socksAddr) query(protocol netpolicy.Protocol) (netpolicy.Query, error) {
	host, err := netpolicy.Normalize(a.host)
	if err == nil && host == "" {
		err = errors.New("no host")
	}
	return netpolicy.Query{Protocol: protocol, Host: host, Port: a.port}, err
}

// socksReplyFor returns the reply code for an error.
func socksReplyFor(err error) socksReply {
	if _, ok := errors.AsType[*refusedError](err); ok {
		return socksRefused
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return socksNoHost
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errLoop):
		return socksRefused
	case errors.Is(err, syscall.ECONNREFUSED):
		return socksConnRefused
	case errors.Is(err, syscall.ENETUNREACH):
		return socksNoNetwork
	case errors.Is(err, syscall.EHOSTUNREACH), ok && timeout.Timeout():
		return socksNoHost
	}
	return socksFailure
}

// answer writes a reply. The time of the decision does not count against the
// client.
func (s *socksServer) answer(c net.Conn, code socksReply, bound netip.AddrPort) error {
	c.SetDeadline(time.Now().Add(s.handshake))
	_, err := c.Write(appendSocksReply(nil, code, bound))
	return err
}

// fail answers that the request failed.
func (s *socksServer) fail(c net.Conn, code socksReply) {
	if s.answer(c, code, netip.AddrPort{}) == nil {
		linger(c)
	}
}

// linger waits a moment for the client to hang up.
func linger(c net.Conn) {
	if closeWrite(c) != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(socksLinger))
	io.CopyN(io.Discard, c, socksLingerBytes)
}

func (s *socksServer) garbled(c net.Conn, err error) {
	if err != io.EOF { // EOF: the client closed the connection without a request
		s.proxy.config.Log.Debug("SOCKS handshake", "client", c.RemoteAddr().String(), "err", err)
	}
}

// notAName logs a destination that is not a host: there is no query, so there is
// no decision either.
func (s *socksServer) notAName(to socksAddr, err error) {
	s.proxy.config.Log.LogAttrs(s.proxy.ctx, slog.LevelInfo, "network deny: not a host",
		slog.String("host", to.host), slog.Int("port", int(to.port)), slog.Any("err", err))
}
