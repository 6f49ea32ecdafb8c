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
	quiet := log.New(io.Discard, "", 0) // these logs would show what was asked for
	s := &http.Server{
		Handler: &httpProxy{p, &httputil.ReverseProxy{
			Rewrite:        p.rewrite,
			Transport:      p.transport,
			ModifyResponse: checkSwitch,
			FlushInterval:  -1, // what a host says is passed on at once
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
	s.Serve(l) // ends with l; its connections are the proxy's to close
}

// newTransport returns what carries plain requests on, as the route in a request's
// context says. Each request gets a connection of its own: what was checked for it is
// what it uses, and a host cannot leave anything behind for the next one.
func (p *Proxy) newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  func(r *http.Request) (*url.URL, error) { return carriageOf(r.Context()).forwarder(), nil },
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

// A carriage is how a plain request is carried on, and for how long.
type carriage struct {
	route
	request context.Context // of the request; what is dialled for it ends with it
}

type carriageKey struct{}

// forwarder returns the URL of the upstream proxy that is given the request in absolute form, or nil.
func (c carriage) forwarder() *url.URL {
	if c.upstream == nil || !c.upstream.Forwards() {
		return nil
	}
	return c.upstream.URL()
}

// carriageOf returns the carriage that a request was given. Without one it leads nowhere.
func carriageOf(ctx context.Context) carriage {
	c, _ := ctx.Value(carriageKey{}).(carriage)
	return c
}

var errNoRoute = errors.New("the request has no route")

// dialRoute connects as the route in ctx says. address is that of the upstream proxy if the
// proxy is given the request, and else that of the host. Without a proxy it is not used: the
// name would have to be resolved again.
//
// The connection is closed when the request is over, whoever has it then: http.Transport
// dials on when nobody waits any more, and does not always say who is to close.
func (p *Proxy) dialRoute(ctx context.Context, _, address string) (net.Conn, error) {
	r := carriageOf(ctx)
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
	l := &listenLater{conn: c.(*conn), spoken: make(chan struct{})}
	context.AfterFunc(r.request, func() { l.Close() })
	return l, nil
}

// listenLater hears a host only after it was spoken to. http.Transport would write what
// comes before to the standard log.
type listenLater struct {
	*conn
	once   sync.Once
	spoken chan struct{}
}

func (c *listenLater) Write(b []byte) (int, error) {
	c.once.Do(func() { close(c.spoken) })
	return c.conn.Write(b)
}

func (c *listenLater) Read(b []byte) (int, error) {
	select {
	case <-c.spoken:
	case <-c.proxy.ctx.Done():
	}
	return c.conn.Read(b)
}

func (c *listenLater) Close() error {
	err := c.conn.Close()
	c.once.Do(func() { close(c.spoken) })
	return err
}

// unixSocketHeader asks for a request to be sent to a unix socket, which a process is
// not to reach by way of a proxy.
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
	ctx := context.WithValue(r.Context(), carriageKey{}, carriage{to, r.Context()})
	h.reverse.ServeHTTP(unsniffed{w}, r.WithContext(ctx))
}

// plainQuery returns what a request in absolute form wants to reach.
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

// tunnelQuery returns what a CONNECT request wants to reach. It must have nothing but a
// host and a port.
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

// rewrite makes the request for the host of one for the proxy. Its target is spelled as
// it was decided on, so that nobody after us can read it in another way.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	q, err := plainQuery(r.In)
	if err != nil {
		panic(err) // it was all right a moment ago
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
			r.Out.Header[name] = values // the client's business
		}
	}
}

// keepPath passes the path on byte by byte, where url.URL would escape it anew.
func keepPath(r *httputil.ProxyRequest) {
	_, rest, _ := strings.Cut(r.In.RequestURI, "://")
	path, _, _ := strings.Cut(rest, "?")
	slash := strings.IndexByte(path, '/')
	if slash < 0 {
		return
	}
	path = path[slash:]
	r.Out.URL.Opaque = path
	if carriageOf(r.In.Context()).forwarder() != nil || strings.HasPrefix(path, "//") {
		r.Out.URL.Opaque = "//" + r.Out.Host + path // in absolute form, which every host understands
	}
}

// maySwitch reports whether a request may ask for another protocol, which makes a tunnel
// of its connection. Where a query by CONNECT would be refused it may not. Nor may it by
// way of an upstream proxy: if that does not agree that there is a tunnel, it takes what
// comes through it for requests, to hosts that nobody has decided about.
func (p *Proxy) maySwitch(q netpolicy.Query, in *http.Request) bool {
	q.Protocol, q.Method = netpolicy.Connect, http.MethodConnect
	return carriageOf(in.Context()).upstream == nil && p.config.Rules.Guard(q).Allowed
}

var errSwitch = errors.New("the host switches to a protocol that was not asked for")

// checkSwitch refuses an answer that makes a tunnel of the connection, unless it is one
// that was asked for. The client's own wish says nothing: see maySwitch.
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

// tunnel handles CONNECT. The answer comes when there is a connection.
func (h *httpProxy) tunnel(w http.ResponseWriter, r *http.Request) {
	q, err := tunnelQuery(r)
	if err != nil {
		w.Header().Set("Connection", "close") // what follows may not be a request
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

// forwardBuffered sends what a client sent along with its request.
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

// unsniffed keeps the server from guessing at content types that the host left out.
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

// A bufferPool has large buffers, which make few answers fast, and small ones for the
// others: an answer may take as long as its host likes.
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
