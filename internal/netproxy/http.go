package netproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// Limits of the HTTP proxy.
const (
	headerTimeout    = 30 * time.Second // for a client to finish its header
	idleTimeout      = 2 * time.Minute  // for a client between requests
	maxHeaderBytes   = 256 << 10        // of a request
	maxAnswerHeader  = 1 << 20          // bytes, of an answer
	continueTimeout  = time.Second      // for a host to say that it wants the body
	httpBuffer       = 64 << 10         // bytes, for each direction of a connection to a host
	answerCopyBuffer = 512 << 10        // bytes, for passing on an answer
	maxAnswerBuffers = 32               // of these, for all processes
	lessAnswerBuffer = 32 << 10         // bytes, when all of them are in use
)

// ServeHTTP serves an HTTP proxy on l until Close. It owns l.
func (p *Proxy) ServeHTTP(l net.Listener) { p.serveHTTP(l, headerTimeout) }

func (p *Proxy) serveHTTP(l net.Listener, headerTimeout time.Duration) {
	l, err := p.listen(l)
	if err != nil {
		return
	}
	defer l.Close()
	quiet := log.New(io.Discard, "", 0) // these logs would show the requests
	s := &http.Server{
		Handler: &httpProxy{p, &httputil.ReverseProxy{
			Rewrite:        p.rewrite,
			Transport:      p.transport,
			ModifyResponse: checkSwitch,
			FlushInterval:  -1, // pass data from a host on at once
			BufferPool:     &answerBuffers,
			ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, err error) { answerFailure(w, err) },
			ErrorLog:       quiet,
		}},
		ErrorLog:                     quiet,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		BaseContext:                  func(net.Listener) context.Context { return p.ctx },
	}
	s.Serve(l) // ends with l; the proxy closes its connections
}

// newTransport returns the transport for plain requests, which uses the route in a
// request's context. Each request gets its own connection: it uses the addresses that
// were checked for it, and a host cannot leave data for the next request.
func (p *Proxy) newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  func(r *http.Request) (*url.URL, error) { return routeOf(r.Context()).forwarder(), nil },
		DialContext:            p.dialRoute,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		TLSHandshakeTimeout:    dialTimeout,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxAnswerHeader,
		ReadBufferSize:         httpBuffer,
		WriteBufferSize:        httpBuffer,
		Protocols:              onlyHTTP1(),
	}
}

func onlyHTTP1() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}

// A requestRoute is the route of a plain request, and its lifetime.
type requestRoute struct {
	route
	request context.Context // of the request; connections for it end with it
}

type routeKey struct{}

// forwarder returns the URL of the upstream proxy that gets the request in absolute form, or nil.
func (c requestRoute) forwarder() *url.URL {
	if c.upstream == nil || !c.upstream.Forwards() {
		return nil
	}
	return c.upstream.URL()
}

// routeOf returns the route of a request. Without one the request fails.
func routeOf(ctx context.Context) requestRoute {
	c, _ := ctx.Value(routeKey{}).(requestRoute)
	return c
}

var errNoRoute = errors.New("the request has no route")

// dialRoute connects by the route in ctx. address is the address of the upstream proxy if
// the proxy gets the request, else that of the host. Without a proxy it is not used: the
// name would have to be resolved again.
//
// The connection is closed when the request is over: http.Transport continues a dial that no
// request waits for, and does not always close the connection.
func (p *Proxy) dialRoute(ctx context.Context, _, address string) (net.Conn, error) {
	r := routeOf(ctx)
	if r.request == nil {
		return nil, errNoRoute
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.request, cancel)()
	var c net.Conn
	var err error
	switch {
	case r.upstream == nil:
		c, err = p.connect(ctx, r.addresses)
	case r.upstream.Forwards():
		c, err = p.connectUpstream(ctx, "tcp", address)
	default:
		c, err = p.dialUpstream(ctx, r.upstream, address)
	}
	if err != nil {
		return nil, err
	}
	l := &readAfterWrite{conn: c.(*conn), written: make(chan struct{})}
	context.AfterFunc(r.request, func() { l.Close() })
	return l, nil
}

// readAfterWrite reads from a host only after the first write. http.Transport would
// write data that comes earlier to the standard log.
type readAfterWrite struct {
	*conn
	once    sync.Once
	written chan struct{}
}

func (c *readAfterWrite) Write(b []byte) (int, error) {
	c.once.Do(func() { close(c.written) })
	return c.conn.Write(b)
}

func (c *readAfterWrite) Read(b []byte) (int, error) {
	select {
	case <-c.written:
	case <-c.proxy.ctx.Done():
	}
	return c.conn.Read(b)
}

func (c *readAfterWrite) Close() error {
	err := c.conn.Close()
	c.once.Do(func() { close(c.written) })
	return err
}

// unixSocketHeader asks the proxy to send a request to a unix socket. A process must
// not reach unix sockets through a proxy.
const unixSocketHeader = "X-Unix-Socket"

// noUnixSockets is the decision about such a request.
var noUnixSockets = netpolicy.Decision{Source: "proxy_state", Reason: "unix_socket_unsupported"}

// httpProxy handles requests to the proxy.
type httpProxy struct {
	proxy   *Proxy
	reverse *httputil.ReverseProxy
}

func (h *httpProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		h.tunnel(w, r)
		return
	}
	if r.Header.Values(unixSocketHeader) != nil {
		q := netpolicy.Query{Protocol: netpolicy.HTTP, Host: "unix-socket", Method: r.Method}
		h.proxy.report(Event{Query: q, Client: r.RemoteAddr, Decision: noUnixSockets})
		answerText(w, http.StatusNotImplemented, "unix sockets unsupported")
		return
	}
	q, err := plainQuery(r)
	if err != nil {
		answerText(w, http.StatusBadRequest, err.Error())
		return
	}
	to, err := h.proxy.decide(r.Context(), q, clientOf(r))
	if refused, ok := errors.AsType[*refusedError](err); ok {
		answerRefusal(w, q, refused.decision)
		return
	}
	if err != nil {
		answerFailure(w, err)
		return
	}
	ctx := context.WithValue(r.Context(), routeKey{}, requestRoute{to, r.Context()})
	h.reverse.ServeHTTP(unsniffed{w}, r.WithContext(ctx))
}

// plainQuery returns the query of a request in absolute form.
func plainQuery(r *http.Request) (netpolicy.Query, error) {
	u := r.URL
	switch {
	case u.Scheme == "" || u.Host == "":
		return netpolicy.Query{}, errors.New("this is a proxy: the request needs an absolute URL")
	case u.Scheme != "http":
		return netpolicy.Query{}, errors.New("only http URLs can be asked for; others need CONNECT")
	case u.User != nil:
		return netpolicy.Query{}, errors.New("the URL must not have user information")
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return newQuery(netpolicy.HTTP, r.Method, u.Hostname(), port)
}

// tunnelQuery returns the query of a CONNECT request. It must have only a host and a
// port.
func tunnelQuery(r *http.Request) (netpolicy.Query, error) {
	host, port, err := net.SplitHostPort(r.RequestURI)
	switch {
	case err != nil || strings.ContainsAny(r.RequestURI, "@/?#"):
		return netpolicy.Query{}, errors.New("CONNECT needs host:port")
	case r.ContentLength != 0:
		return netpolicy.Query{}, errors.New("CONNECT must not have a body")
	}
	return newQuery(netpolicy.Connect, http.MethodConnect, host, port)
}

func newQuery(protocol netpolicy.Protocol, method, host, port string) (netpolicy.Query, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return netpolicy.Query{}, errors.New("the port must be between 1 and 65535")
	}
	name, err := netpolicy.Normalize(host)
	if err != nil {
		return netpolicy.Query{}, errors.New("the host is neither a name nor an address")
	}
	return netpolicy.Query{Protocol: protocol, Host: name, Port: uint16(n), Method: method}, nil
}

// rewrite turns the request to the proxy into the request to the host. Its target has
// the spelling that was decided about, so that no later proxy or host can read it in
// another way.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	q, err := plainQuery(r.In)
	if err != nil {
		panic(err) // ServeHTTP has checked it
	}
	r.Out.URL.Host = net.JoinHostPort(q.Host, strconv.Itoa(int(q.Port)))
	r.Out.Host = r.Out.URL.Host
	if r.In.URL.Port() == "" {
		r.Out.Host = strings.TrimSuffix(r.Out.Host, ":80")
	}
	r.Out.URL.RawQuery, r.Out.URL.ForceQuery = r.In.URL.RawQuery, r.In.URL.ForceQuery
	keepPath(r)
	if !p.maySwitch(q, r.In) {
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
	}
	r.Out.Trailer = r.In.Trailer // filled when the body has been read
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = values // set by the client
		}
	}
}

// keepPath passes the path on byte by byte; url.URL would escape it again.
func keepPath(r *httputil.ProxyRequest) {
	_, rest, _ := strings.Cut(r.In.RequestURI, "://")
	path, _, _ := strings.Cut(rest, "?")
	slash := strings.IndexByte(path, '/')
	if slash < 0 {
		return
	}
	path = path[slash:]
	r.Out.URL.Opaque = path
	if routeOf(r.In.Context()).forwarder() != nil || strings.HasPrefix(path, "//") {
		r.Out.URL.Opaque = "//" + r.Out.Host + path // in absolute form, which every host understands
	}
}

// maySwitch reports whether a request may ask for another protocol, which turns its
// connection into a tunnel. It may not if CONNECT would be refused. It may not through
// an upstream proxy either: if that proxy does not see a tunnel, it reads the data in it
// as requests, to hosts that were not decided about.
func (p *Proxy) maySwitch(q netpolicy.Query, in *http.Request) bool {
	q.Protocol, q.Method = netpolicy.Connect, http.MethodConnect
	return routeOf(in.Context()).upstream == nil && p.config.Rules.Guard(q).Allowed
}

var errSwitch = errors.New("the host switches to a protocol that was not asked for")

// checkSwitch refuses a response that turns the connection into a tunnel, unless the
// forwarded request asked for it. The client's own header does not count: see
// maySwitch.
func checkSwitch(a *http.Response) error {
	if a.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	asked := a.Request.Header.Get("Upgrade")
	if asked == "" || !strings.EqualFold(asked, a.Header.Get("Upgrade")) {
		return errSwitch
	}
	return nil
}

// tunnel handles CONNECT. It responds when there is a connection.
func (h *httpProxy) tunnel(w http.ResponseWriter, r *http.Request) {
	q, err := tunnelQuery(r)
	if err != nil {
		w.Header().Set("Connection", "close") // the following bytes may not be a request
		answerText(w, http.StatusBadRequest, err.Error())
		return
	}
	host, err := h.proxy.dial(r.Context(), q, clientOf(r))
	if err != nil {
		w.Header().Set("Connection", "close")
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		answerRefusal(w, q, refused.decision)
		return
	}
	if err != nil {
		answerFailure(w, err)
		return
	}
	defer host.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		answerFailure(w, err)
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	if err := forwardBuffered(host, buffered.Reader); err != nil {
		return
	}
	relay(client, host)
}

// forwardBuffered forwards the bytes that a client sent along with its
// request.
func forwardBuffered(w io.Writer, r *bufio.Reader) error {
	early, err := r.Peek(r.Buffered())
	if err != nil || len(early) == 0 {
		return err
	}
	_, err = w.Write(early)
	return err
}

// clientOf returns the address of the process's end of a connection.
func clientOf(r *http.Request) net.Addr {
	a, _ := netip.ParseAddrPort(r.RemoteAddr)
	return net.TCPAddrFromAddrPort(a)
}

// unsniffed prevents the server from guessing content types that the host left out.
type unsniffed struct{ http.ResponseWriter }

func (w unsniffed) WriteHeader(status int) {
	h := w.Header()
	if _, ok := h["Content-Type"]; !ok && status >= 200 {
		h["Content-Type"] = nil
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w unsniffed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// answerBuffers are shared by all proxies.
var answerBuffers bufferPool

// A bufferPool has large buffers, which make a few responses fast, and small ones for
// the others: a response may take as long as its host likes.
type bufferPool struct {
	pool  sync.Pool
	large atomic.Int64 // buffers in use
}

func (b *bufferPool) Get() []byte {
	if b.large.Add(1) > maxAnswerBuffers {
		b.large.Add(-1)
		return make([]byte, lessAnswerBuffer)
	}
	if p, ok := b.pool.Get().(*[answerCopyBuffer]byte); ok {
		return p[:]
	}
	return make([]byte, answerCopyBuffer)
}

func (b *bufferPool) Put(p []byte) {
	if len(p) == answerCopyBuffer {
		b.large.Add(-1)
		b.pool.Put((*[answerCopyBuffer]byte)(p))
	}
}
