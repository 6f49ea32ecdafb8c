// Package relay lets a browser on this machine use a server that it cannot reach by itself.
//
// A [Relay] passes the requests of browsers on to a server that has the console, such as one on a Unix socket. [Pages] is for a server that
// speaks no HTTP, such as the other end of ssh: it serves the page itself and passes on messages. Both listen on a port of loopback, to which
// every user and every sandbox with the network of this machine can connect, and promise that no other program of the machine gets in by that
// port: a browser needs a code.
package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/slots"
)

const (
	// maxConnections limits the connections of browsers. A browser opens six to a server, and one per page for its socket. One more
	// has to wait.
	maxConnections = 64
	// dialTime is how long the connection to the server may take.
	dialTime = 10 * time.Second
	// headerTime is how long a browser may take to send the header of a request, and idleTime how long its connection lives without one.
	headerTime = 10 * time.Second
	idleTime   = 60 * time.Second
	// maxHeader is that of the server, see package listen.
	maxHeader = 32 << 10
)

// A Relay passes requests for the console on from a port of loopback to a server. The server may let in every program that reaches it, so
// all other requests are refused: only those that the server lets in by a code or a login may come by the port.
type Relay struct {
	l    net.Listener
	dial func(context.Context) (net.Conn, error)
	log  *slog.Logger
}

// Listen opens a free port of loopback. dial connects to the server.
func Listen(dial func(context.Context) (net.Conn, error), log *slog.Logger) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	return &Relay{l, dial, log}, nil
}

// Origin is the origin of the page, as the browser sees it.
func (r *Relay) Origin() string { return "http://" + r.l.Addr().String() }

// Serve passes requests on until ctx ends. Then it closes the connections and the port, and returns nil.
func (r *Relay) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var passing handlers
	defer passing.end()
	defer cancel()
	proxy := r.proxy()
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if !passing.begin() {
				return
			}
			defer passing.Done() // a WebSocket ends with either of its connections, or with ctx
			if path := q.URL.EscapedPath(); !console.Owns(path) || path == console.PathCode {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			proxy.ServeHTTP(w, q)
		}),
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout:            headerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	defer srv.Close()
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	err := srv.Serve(&limited{r.l, ctx, slots.New(maxConnections)})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("accept connections of the browser: %w", err)
}

// proxy returns the handler that passes a request on as it is. Each has a connection of its own to the server.
func (r *Relay) proxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		// The header Host stays: the server compares it with the origin of the page.
		Rewrite: func(q *httputil.ProxyRequest) { q.Out.URL.Scheme, q.Out.URL.Host = "http", "server" },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, dialTime)
				defer cancel()
				return r.dial(ctx)
			},
			DisableKeepAlives:  true,
			DisableCompression: true, // the browser decompresses
		},
		ErrorHandler: func(w http.ResponseWriter, q *http.Request, err error) {
			if q.Context().Err() == nil {
				r.log.Warn("the browser's connection to the server has failed", "err", err)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
		ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
}

// The handlers of requests. http.Server does not wait for those of connections that it closes.
type handlers struct {
	sync.WaitGroup
	mu    sync.Mutex
	ended bool
}

// begin counts one more handler, which calls Done. It returns false after end.
func (h *handlers) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.Add(1)
	}
	return !h.ended
}

// end lets no handler begin any more, and waits for the others.
func (h *handlers) end() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.Wait()
}

// A limited listener has maxConnections at most. One more has to wait.
type limited struct {
	net.Listener
	ctx  context.Context // ends with Serve
	free slots.Slots
}

func (l *limited) Accept() (net.Conn, error) {
	if err := l.free.Take(l.ctx); err != nil {
		return nil, err
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		l.free.Free()
		return nil, err
	}
	return &limitedConn{conn, sync.OnceFunc(l.free.Free)}, nil
}

// A limitedConn frees its slot when it is closed.
type limitedConn struct {
	net.Conn
	free func()
}

func (c *limitedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
