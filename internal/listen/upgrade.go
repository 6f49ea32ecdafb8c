package listen

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/loglimit"
	"github.com/tetherexec/tether/internal/peer"
	"github.com/tetherexec/tether/internal/websocket"
)

const (
	// handshakeTimeout is how long a client may take from connecting to the end of
	// its request (with TLS: for each of the two). A normal client needs one round
	// trip.
	handshakeTimeout = 10 * time.Second
	// idleTimeout ends a kept-alive HTTP connection, such as that of a health
	// check, without further requests.
	idleTimeout = 60 * time.Second
	// joinTime is how long a client that has connected may take to upgrade while another process waits for
	// the socket. A client of this machine needs less than a millisecond.
	joinTime = 20 * time.Millisecond
	// maxRequestHeader leaves room for a large bearer token.
	maxRequestHeader = 32 << 10
	// maxWaiting limits the connections that have not become WebSockets. One more
	// closes the oldest: a normal client upgrades within milliseconds, so the
	// oldest is the least likely to be one.
	maxWaiting = 1024
)

// An upgrader is the part of a listener that speaks HTTP: health checks, and the upgrade to WebSocket.
type upgrader struct {
	access       *access          // nil: no authentication
	console      *console.Console // nil: browsers are refused
	anyNamespace bool             // see Config
	hint         string           // Config.NamespaceHint
	anyPath      bool             // see Handler
	looking      bool             // see Handler
	pages        []Page           // see Handler
	ready        func() error     // see Handler
	log          *slog.Logger
	refusals     loglimit.Limit // of lines about clients that were refused
	via          string         // see Listener.via
	counts       *counts        // nil: nothing is counted
	// accept takes over a connection whose upgrade was answered. buffered has the
	// bytes that the client sent after its request. accept must return at once: the
	// caller's stack and buffers are held until then.
	accept func(conn net.Conn, buffered []byte, client Client)

	leave   <-chan struct{} // see Handler
	leaving func()          // is called before l is closed because of leave

	mu       sync.Mutex
	stopped  bool           // no more upgrades
	upgrades sync.WaitGroup // in progress; grows only under mu and before stopped
}

// serve answers requests on l until ctx ends. Then it closes l and every connection
// that was not passed to accept, and returns nil. accept is not called after serve
// has returned. If u.leave is closed, connections have joinTime to be passed to accept, and
// serve returns ErrLeft.
func (u *upgrader) serve(ctx context.Context, l net.Listener) error {
	var waiting waitingRoom
	srv := &http.Server{
		Handler:                      u,
		ReadTimeout:                  handshakeTimeout,
		WriteTimeout:                 handshakeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxRequestHeader,
		ConnState:                    waiting.track,
		ConnContext:                  u.checkPeer,
		DisableGeneralOptionsHandler: true,
		Protocols:                    new(http.Protocols),
		ErrorLog:                     httpErrors{u}.logger(),
	}
	srv.Protocols.SetHTTP1(true)
	cancel := context.AfterFunc(ctx, func() { srv.Close() })
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }() // ends with srv
	var err error
	select {
	case err = <-served:
	case <-u.leave:
		u.leaving()
		joining, over := context.WithTimeout(context.WithoutCancel(ctx), joinTime)
		srv.Shutdown(joining)
		over()
		<-served
		err = ErrLeft
	}
	srv.Close()
	u.stop()
	if err == ErrLeft {
		return err
	}
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("accept connections: %w", err)
}

// stop refuses further upgrades and waits for those in progress.
func (u *upgrader) stop() {
	u.mu.Lock()
	u.stopped = true
	u.mu.Unlock()
	u.upgrades.Wait()
}

// begin counts an upgrade, unless the upgrader has stopped.
func (u *upgrader) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.stopped {
		u.upgrades.Add(1)
	}
	return !u.stopped
}

// peerKey is the context key for the reason to refuse a connection.
type peerKey struct{}

// checkPeer is the server's ConnContext hook: it runs right after accept.
func (u *upgrader) checkPeer(ctx context.Context, conn net.Conn) context.Context {
	if u.anyNamespace {
		return ctx
	}
	if err := peer.Check(conn); err != nil {
		return context.WithValue(ctx, peerKey{}, err)
	}
	return ctx
}

// refusePeer answers a client that checkPeer has refused. If the server only lacked
// descriptors or memory for the check, the client may try again.
func (u *upgrader) refusePeer(w http.ResponseWriter, err error) {
	u.counts.refuse(u.via, otherSpace)
	u.logRefusal("client on the Unix socket refused", "err", err)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	refuse(w, http.StatusForbidden, err.Error()+"; run the client in the container of the server"+u.hint)
}

// ServeHTTP answers one request. The order of the checks is part of the protocol.
func (u *upgrader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err, refused := r.Context().Value(peerKey{}).(error); refused {
		u.refusePeer(w, err)
		return
	}
	path := r.URL.EscapedPath()
	if u.console != nil && console.Owns(path) {
		u.serveConsole(w, r)
		return
	}
	// Only browsers send an Origin. Without this check any web page could connect
	// to a server on the loopback address of its reader's machine.
	if origin, browser := r.Header["Origin"]; browser {
		u.counts.refuse(u.via, webPage)
		u.logRefusal("web page refused", "peer", r.RemoteAddr, "origin", truncate(strings.Join(origin, " ")))
		w.WriteHeader(http.StatusForbidden)
		return
	}
	switch {
	case path == "/readyz" || path == "/healthz":
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET,HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if path == "/readyz" && u.ready != nil {
			if err := u.ready(); err != nil {
				refuse(w, http.StatusServiceUnavailable, err.Error()+"\n")
			}
		}
	case u.page(path) != nil:
		u.servePage(w, r, u.page(path))
	case path == "/" || path == "" || u.anyPath: // empty if the request target is an absolute URL without a path
		u.serveUpgrade(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (u *upgrader) serveUpgrade(w http.ResponseWriter, r *http.Request) {
	if status, problem := checkUpgrade(r); problem != "" {
		u.counts.count(u.via, malformed)
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			problem = forBrowsers
			if u.console != nil {
				problem += "People use it in a browser: tether console --url ws://HOST:PORT\n"
			}
		}
		refuse(w, status, problem)
		return
	}
	client, err := u.check(r)
	if err != nil {
		u.counts.refuse(u.via, reasonOf(err))
		u.logRefusal("client not authenticated", "peer", r.RemoteAddr, "err", err)
		refuse(w, statusOf(err), err.Error())
		return
	}
	client.Query = r.URL.RawQuery
	u.upgrade(w, r, client)
}

// check returns the client of a request, if it may connect now.
func (u *upgrader) check(r *http.Request) (c Client, err error) {
	var epoch uint64
	if u.console != nil {
		epoch = u.console.Epoch() // before the check: a token that is replaced meanwhile lets no browser in
	}
	c, err = u.access.check(r, u.log)
	c.Epoch = epoch
	return c, err
}

// upgrade takes over the connection of a client.
func (u *upgrader) upgrade(w http.ResponseWriter, r *http.Request, client Client) {
	if client.ReadOnly && !u.looking {
		u.counts.refuse(u.via, OtherToken)
		refuse(w, http.StatusForbidden, "this server has nothing that a read-only client may use")
		return
	}
	if !u.begin() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer u.upgrades.Done()
	conn, buffered, err := switchProtocols(w, r.Header["Sec-Websocket-Key"][0])
	if err != nil {
		u.log.Debug("upgrade failed", "peer", r.RemoteAddr, "err", err)
		return
	}
	client.Peer, client.Query = peerName(conn), strings.Clone(client.Query)
	u.accept(conn, buffered, client)
}

// logRefusal logs that a client was refused, unless there are too many such lines.
func (u *upgrader) logRefusal(msg string, args ...any) {
	dropped, ok := u.refusals.Next()
	if !ok {
		return
	}
	if dropped > 0 {
		args = append(args, "unlogged", dropped)
	}
	u.log.Info(msg, args...)
}

// forBrowsers is shown to a person who opens the address of a server in a browser.
const forBrowsers = "This is a tether server. It has no pages: it runs commands for programs that connect by WebSocket,\n" +
	"for example: tether run --url ws://HOST:PORT -- uname -a\n"

// checkUpgrade returns what is wrong with a WebSocket opening request, or "".
func checkUpgrade(r *http.Request) (status int, problem string) {
	switch {
	case r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed, "Request method must be `GET`"
	case !slices.ContainsFunc(r.Header["Connection"], func(v string) bool { return strings.Contains(strings.ToLower(v), "upgrade") }):
		return http.StatusBadRequest, "Connection header did not include 'upgrade'"
	case !slices.ContainsFunc(r.Header["Upgrade"], func(v string) bool { return strings.EqualFold(v, "websocket") }):
		return http.StatusBadRequest, "`Upgrade` header did not include 'websocket'"
	case !slices.ContainsFunc(r.Header["Sec-Websocket-Version"], func(v string) bool { return v == "13" }):
		return http.StatusBadRequest, "`Sec-WebSocket-Version` header did not include '13'"
	case len(r.Header["Sec-Websocket-Key"]) == 0:
		return http.StatusBadRequest, "`Sec-WebSocket-Key` header missing"
	case !r.ProtoAtLeast(1, 1):
		return http.StatusUpgradeRequired, "WebSocket request couldn't be upgraded since no upgrade state was present"
	}
	return 0, ""
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, text) // an error only concerns the client
}

// switchProtocols takes the connection from the HTTP server and answers 101,
// without a subprotocol or extension. The returned connection has no deadlines; the
// bytes are those that arrived after the request.
func switchProtocols(w http.ResponseWriter, key string) (net.Conn, []byte, error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("take over connection: %w", err)
	}
	early, _ := rw.Reader.Peek(rw.Reader.Buffered()) // cannot fail: it asks only for buffered bytes
	buffered := append([]byte(nil), early...)        // copied, so that the reader's buffer can be freed
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n"+
		"Connection: upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Accept: "+websocket.AcceptKey(key)+"\r\n\r\n")
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("answer upgrade: %w", err)
	}
	return conn, buffered, nil
}

// peerName is the name of the client for the log.
func peerName(conn net.Conn) string {
	if addr := conn.RemoteAddr(); addr != nil && addr.Network() != "unix" {
		return addr.String()
	}
	return "unix"
}

// A waitingRoom holds the connections that are neither upgraded nor closed, oldest
// first. Its zero value is empty.
type waitingRoom struct {
	mu    sync.Mutex
	order list.List // of net.Conn
	seats map[net.Conn]*list.Element
}

// track is the server's ConnState hook. For a new connection it runs in the accept
// loop.
func (w *waitingRoom) track(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if oldest := w.enter(conn); oldest != nil {
			closeNow(oldest)
		}
	case http.StateHijacked, http.StateClosed:
		w.leave(conn)
	}
}

// enter adds a connection, and returns the oldest one if it has to be closed.
func (w *waitingRoom) enter(conn net.Conn) (oldest net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seats == nil {
		w.seats = make(map[net.Conn]*list.Element)
	}
	w.seats[conn] = w.order.PushBack(conn)
	if w.order.Len() <= maxWaiting {
		return nil
	}
	oldest = w.order.Remove(w.order.Front()).(net.Conn)
	delete(w.seats, oldest)
	return oldest
}

func (w *waitingRoom) leave(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seat, ok := w.seats[conn]; ok {
		w.order.Remove(seat)
		delete(w.seats, conn)
	}
}

// closeNow closes a connection without the TLS close message, which may wait for
// the peer.
func closeNow(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.Close()
}
