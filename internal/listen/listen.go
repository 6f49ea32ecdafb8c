package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/wire"
)

// DefaultURL is the endpoint when none is named: this machine only, any free port.
const DefaultURL = "ws://127.0.0.1:0"

// keepAlive detects a dead peer after about a quarter of an hour. A laptop that
// sleeps for less keeps its connection, and a peer that is gone for good does not
// hold its connection for ever.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: time.Minute, Count: 14}

// A Transport is the way of a client's bytes to the server.
type Transport int

// The transports an Endpoint can name.
const (
	Stdio      Transport = iota // one connection on standard input and output
	TCP                         // WebSocket
	UnixSocket                  // WebSocket on a socket file of this user
	Activated                   // WebSocket on a socket that the service manager has opened, of either kind
)

// An Endpoint is where to listen, as parsed from a URL.
type Endpoint struct {
	Transport Transport
	TLS       bool           // TCP only
	Addr      netip.AddrPort // TCP only
	Path      string         // UnixSocket only; may be relative
	Name      string         // Activated only: of the socket; "": there is only one
}

// A URLError says that a server cannot listen on a URL.
type URLError struct {
	Problem  string // an adjective
	URL      string
	Expected string // the forms that are understood
}

func (e *URLError) Error() string {
	return fmt.Sprintf("%s URL `%s`; expected %s", e.Problem, e.URL, e.Expected)
}

// ParseURL understands `ws://IP:PORT`, `wss://IP:PORT`, `unix://PATH`, `stdio`, `stdio://`,
// `systemd` and `systemd:NAME`. Host names are refused: they may resolve to more than one address, or
// to another one tomorrow.
func ParseURL(url string) (Endpoint, error) {
	if url == "stdio" || url == "stdio://" {
		return Endpoint{Transport: Stdio}, nil
	}
	if name, named := strings.CutPrefix(url, "systemd:"); url == "systemd" || named && name != "" {
		return Endpoint{Transport: Activated, Name: strings.TrimPrefix(name, "systemd")}, nil
	}
	scheme, rest, _ := strings.Cut(url, "://")
	switch {
	case url == scheme: // no "://"
	case scheme == "ws" || scheme == "wss":
		addr, err := parseAddr(rest)
		if err != nil {
			return Endpoint{}, &URLError{"invalid websocket", url, "`" + scheme + "://IP:PORT`"}
		}
		return Endpoint{Transport: TCP, TLS: scheme == "wss", Addr: addr}, nil
	case scheme == "unix":
		if rest == "" || strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return Endpoint{}, &URLError{"invalid socket", url, "`unix://PATH`"}
		}
		return Endpoint{Transport: UnixSocket, Path: rest}, nil
	}
	return Endpoint{}, &URLError{"unsupported", url, "`ws://IP:PORT`, `wss://IP:PORT`, `unix://PATH` or `stdio`"}
}

// parseAddr accepts an IP literal, v6 in brackets, or localhost, and a port. A v6 zone must be
// an interface number.
func parseAddr(s string) (netip.AddrPort, error) {
	if port, ok := strings.CutPrefix(s, "localhost:"); ok {
		s = "127.0.0.1:" + port
	}
	addr, err := netip.ParseAddrPort(s)
	if err != nil {
		return addr, err
	}
	if zone := addr.Addr().Zone(); zone != "" {
		if _, err := strconv.ParseUint(zone, 10, 32); err != nil {
			return addr, err
		}
	}
	return addr, nil
}

// Exposed reports whether other machines may reach the endpoint.
func (e Endpoint) Exposed() bool {
	return e.Transport == TCP && !e.Addr.Addr().Unmap().IsLoopback()
}

// URL is the URL that a client dials to reach the endpoint.
func (e Endpoint) URL() string {
	switch e.Transport {
	case TCP:
		if e.TLS {
			return "wss://" + e.Addr.String()
		}
		return "ws://" + e.Addr.String()
	case UnixSocket:
		path := e.Path
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		return "unix://" + path
	case Activated:
		if e.Name != "" {
			return "systemd:" + e.Name
		}
		return "systemd"
	}
	return "stdio"
}

// A Listener is an open endpoint for WebSocket clients.
type Listener struct {
	net.Listener
	// URL is the URL that a client dials, with the real port or an absolute path.
	URL string
	// SocketPath is the absolute path of the socket file, or "".
	SocketPath string
	// Console lets browsers in; nil: it does not.
	Console *console.Console

	socket        net.Listener // the listening socket itself
	access        *access
	anyNamespace  bool         // see Config
	namespaceHint string       // see Config
	close         func() error // once; also removes the socket file, unless it belongs to the service manager
	left          atomic.Bool  // the socket file is not removed: another process goes on with the socket
}

// Close stops listening and removes the socket file, unless another server has
// replaced it.
func (l *Listener) Close() error { return l.close() }

// Open starts to listen at cfg.URL. It refuses an endpoint that other machines can
// reach without authentication.
func Open(ctx context.Context, cfg Config) (*Listener, error) {
	return cfg.open(func(endpoint Endpoint) (net.Listener, error) {
		switch endpoint.Transport {
		case UnixSocket:
			return openSocket(ctx, endpoint)
		case Activated:
			return takeSocket(endpoint.Name)
		}
		return At(ctx, endpoint.Addr)
	})
}

// Inherit is Open with a socket that another program has opened with the same Config ([Listener.File]). The
// file is closed.
func Inherit(cfg Config, socket *os.File) (*Listener, error) {
	return cfg.open(func(Endpoint) (net.Listener, error) { return fromFile(socket) })
}

// fromFile makes a listener of a socket. The file is closed.
func fromFile(socket *os.File) (net.Listener, error) {
	defer socket.Close()
	inner, err := net.FileListener(socket)
	if tcp, ok := inner.(*net.TCPListener); ok {
		return keptAlive{tcp}, nil
	}
	return inner, err
}

// keptAlive sets what the connections of an inherited socket lack.
type keptAlive struct{ *net.TCPListener }

func (l keptAlive) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return conn, conn.SetKeepAliveConfig(keepAlive)
}

// File returns a copy of the listening socket, for [Inherit].
func (l *Listener) File() (*os.File, error) {
	socket, ok := l.socket.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return socket.File()
}

// open makes a listener of the socket that is returned by listen.
func (c Config) open(listen func(Endpoint) (net.Listener, error)) (*Listener, error) {
	endpoint, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	if endpoint.Transport == Stdio {
		return nil, errors.New("stdio is not something to listen on")
	}
	access, err := newAccess(c)
	if err != nil {
		return nil, err
	}
	var page *console.Console
	if c.Console != nil {
		if page, err = console.New(*c.Console); err != nil {
			return nil, err
		}
	}
	inner, err := listen(endpoint)
	if err != nil {
		return nil, listenError(endpoint, err)
	}
	l := &Listener{Console: page, socket: inner, access: access, anyNamespace: c.AnyNamespace, namespaceHint: c.NamespaceHint}
	ours := endpoint.Transport != Activated
	if !ours {
		if endpoint, err = c.resolve(inner); err != nil {
			inner.Close()
			return nil, err
		}
	}
	if endpoint.Transport == UnixSocket {
		if err := l.useSocket(endpoint, ours); err != nil {
			return nil, err
		}
		return l, nil
	}
	l.useTCP(endpoint)
	return l, nil
}

func (l *Listener) useTCP(endpoint Endpoint) {
	if addr, ok := l.socket.Addr().(*net.TCPAddr); ok {
		endpoint.Addr = netip.AddrPortFrom(endpoint.Addr.Addr(), uint16(addr.Port))
	}
	l.Listener, l.URL, l.close = l.socket, endpoint.URL(), sync.OnceValue(l.socket.Close)
	if certs := l.access.certs; certs != nil {
		certs.changed = func(settings wire.ReloadedSettings, clients bool) {
			if clients {
				l.forgetBrowsers()
			}
			l.Report(settings)
		}
		l.Listener = tls.NewListener(l.socket, certs.serverConfig())
	}
}

// At listens at an address, and at no address of the other family.
func At(ctx context.Context, addr netip.AddrPort) (net.Listener, error) {
	network := "tcp"
	if addr.Addr().Is4() {
		network = "tcp4" // "tcp" would turn 0.0.0.0 into all addresses of both families
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	lc.SetMultipathTCP(false) // its sockets lack options that the keep-alive needs
	return lc.Listen(ctx, network, addr.String())
}

// openSocket creates a socket file that only this user can connect to, from the
// moment it exists.
func openSocket(ctx context.Context, endpoint Endpoint) (net.Listener, error) {
	path, err := filepath.Abs(endpoint.Path)
	if err != nil {
		return nil, err
	}
	unlock, err := lockDir(ctx, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	// The path is used as given, because it may be shorter than the absolute one,
	// and its length is limited. A leading "@" would make it an abstract name,
	// which has no permissions.
	name := endpoint.Path
	if strings.HasPrefix(name, "@") {
		name = "./" + name
	}
	return listenPrivate(ctx, name)
}

// useSocket makes l a listener on a socket file, which its Close removes if it is ours.
func (l *Listener) useSocket(endpoint Endpoint, ours bool) error {
	if socket, ok := l.socket.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(false) // it would also remove the file of a successor
	}
	path, err := filepath.Abs(endpoint.Path)
	var file os.FileInfo
	if err == nil {
		file, err = os.Lstat(path)
	}
	if err != nil {
		l.socket.Close()
		return listenError(endpoint, err)
	}
	l.Listener, l.URL, l.SocketPath = l.socket, endpoint.URL(), path
	l.close = sync.OnceValue(func() error {
		if now, err := os.Lstat(path); err == nil && ours && os.SameFile(file, now) && !l.left.Load() {
			os.Remove(path) // best effort: the next server replaces a stale file
		}
		return l.socket.Close()
	})
	return nil
}

// removeStale removes the socket file of a server that has ended. A file between
// bind and listen would look the same, but the caller holds the lock of the
// directory, so there is none.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the file exists and is not a socket")
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return ErrListening
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("cannot tell whether another server is listening there: %w", err)
}

// listenError says what could not be opened and why. The error of the system call
// would repeat the address.
func listenError(endpoint Endpoint, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if endpoint.Transport == UnixSocket && errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("%w (a socket path may have about 100 bytes, this one has %d)", err, len(endpoint.Path))
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("%w; another program listens there, choose another port", err)
	case endpoint.Transport != UnixSocket && errors.Is(err, syscall.EACCES):
		err = fmt.Errorf("%w; ports below 1024 are for root, choose a higher one", err)
	}
	return fmt.Errorf("cannot listen on `%s`: %w", endpoint.URL(), err)
}
