package netproxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/host"
	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/slots"
)

// Limits of one process's proxy. Beyond a limit the process waits or is refused;
// other processes have proxies of their own.
const (
	maxClients     = 512              // connections from the process; further ones wait to be accepted
	resolveTimeout = 10 * time.Second // for finding the addresses of a name
	lookTimeout    = 2 * time.Second  // the same, if an upstream proxy resolves the name anyway
	dialTimeout    = 30 * time.Second // for a connection to any of a name's addresses
	fallbackDelay  = 300 * time.Millisecond
	maxAddresses   = 16 // of one name that are tried; all are checked
)

// Config configures a Proxy.
type Config struct {
	Rules *netpolicy.Rules

	SocksUDP bool // SOCKS5 clients may send datagrams

	// Upstream is an environment whose HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY
	// name the proxies to use from here; nil: none.
	Upstream []string

	// Ask, if set, settles queries that the rules leave open. Its ctx ends with the
	// connection, and it returns in time. An error is a denial.
	Ask func(ctx context.Context, q netpolicy.Query) (netpolicy.Decision, error)

	// Decided is called with every decision, before it takes effect. It must not
	// block.
	Decided func(Event)

	// Own, if set, reports whether this program listens at an address. A process
	// that may reach this machine must not be able to control the server.
	Own func(netip.AddrPort) bool

	// Resolve finds the addresses of a name; nil: the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	Log *slog.Logger // nil: no log
}

// An Event is a decision.
type Event struct {
	Time     time.Time
	Query    netpolicy.Query
	Decision netpolicy.Decision
	Client   string         // address of the process's end of the connection
	Address  netip.AddrPort // the address that was or would have been dialled, if known
	Asked    bool           // the rules left it open
}

// A Proxy serves one process. The caller passes its listeners.
type Proxy struct {
	config    Config
	proxies   *host.Proxies // of Config.Upstream
	transport *http.Transport
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	clients   slots.Slots // one for each connection from the process

	mu    sync.Mutex
	ended bool
	open  map[*conn]struct{}
	own   map[net.Listener]netip.AddrPort // listeners, with their addresses
	busy  sync.WaitGroup                  // goroutines and open connections; grows only before ended
}

// New returns a proxy without listeners.
func New(cfg Config) *Proxy {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = LimitLog(cfg.Log)
	if cfg.Resolve == nil {
		cfg.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	p := &Proxy{
		config:  cfg,
		proxies: host.ProxiesOf(cfg.Upstream, slog.New(slog.DiscardHandler)), // the server has reported unusable ones
		clients: slots.New(maxClients),
		open:    map[*conn]struct{}{},
		own:     map[net.Listener]netip.AddrPort{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.transport = p.newTransport()
	return p
}

// errClosed is returned after Close.
var errClosed = errors.New("the proxy is closed")

// Close ends the proxy with all its connections, and waits for them.
func (p *Proxy) Close() {
	p.cancel()
	p.mu.Lock()
	p.ended = true
	for l := range p.own {
		l.Close()
	}
	for c := range p.open {
		c.Conn.Close() // its owner notices, and closes c
	}
	p.mu.Unlock()
	p.transport.CloseIdleConnections()
	p.busy.Wait()
}

// run starts f in a goroutine that Close waits for. After Close it does nothing and
// returns false. f must end when p.ctx does or when the connections that it uses are closed.
func (p *Proxy) run(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.busy.Go(f)
	return true
}

// A conn is a connection that Close closes, and for whose owner Close waits: the owner
// must close it.
type conn struct {
	net.Conn
	proxy   *Proxy
	release func() // may be nil
	once    sync.Once
}

// track makes c a connection of this proxy. After Close it closes c and fails.
func (p *Proxy) track(c net.Conn, release func()) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		c.Close()
		return nil, errClosed
	}
	t := &conn{Conn: c, proxy: p, release: release}
	p.open[t] = struct{}{}
	p.busy.Add(1)
	return t, nil
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		p := c.proxy
		p.mu.Lock()
		delete(p.open, c)
		p.mu.Unlock()
		if c.release != nil {
			c.release()
		}
		p.busy.Done()
	})
	return err
}

// CloseWrite closes the sending direction, if the connection supports that.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// listener accepts tracked connections, as many at a time as there are slots.
type listener struct {
	net.Listener
	proxy *Proxy
}

// listen takes l over: Close closes it. The caller must close the connections that it
// accepts. After Close it closes l and fails.
func (p *Proxy) listen(l net.Listener) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		l.Close()
		return nil, errClosed
	}
	p.own[l] = addrPort(l.Addr())
	return &listener{l, p}, nil
}

func (l *listener) Accept() (net.Conn, error) {
	p := l.proxy
	if p.clients.Take(p.ctx) != nil {
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		p.clients.Free()
		return nil, err
	}
	t, err := p.track(c, p.clients.Free)
	if err != nil {
		p.clients.Free()
		return nil, net.ErrClosed
	}
	return t, nil
}

// Close closes the listener and forgets it.
func (l *listener) Close() error {
	l.proxy.mu.Lock()
	delete(l.proxy.own, l.Listener)
	l.proxy.mu.Unlock()
	return l.Listener.Close()
}

// listensAt reports whether one of the proxy's own listeners has this address.
func (p *Proxy) listensAt(a netip.AddrPort) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, own := range p.own {
		if own == a || own.Port() == a.Port() && own.Addr().IsUnspecified() && a.Addr().IsLoopback() {
			return true
		}
	}
	return false
}

func addrPort(a net.Addr) netip.AddrPort {
	ap, _ := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
