package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/internal/listen"
)

// httpPath is the path of the MCP endpoint.
const httpPath = "/mcp"

const (
	// httpIdle is the time without a request after which the session of a client and its commands
	// end: clients need not say that they leave.
	httpIdle = 12 * time.Hour

	httpHeaders = 10 * time.Second // to send the head of a request
	httpQuiet   = 2 * time.Minute  // after which a connection without a request is closed
	httpEnd     = 2 * time.Second  // for answers under way when the server ends

	// maxHTTPClients bounds the sessions, because clients may leave without ending theirs.
	maxHTTPClients = 1000
)

// A Listener is an address on which clients are served.
type Listener struct {
	URL  string // for clients
	auth *listen.Authenticator
	net.Listener
}

// ErrNoToken says that other machines could use a server without a token.
var ErrNoToken = errors.New("a token is needed")

// Listen opens http://IP:PORT. A client that reaches it can run commands, so an address that other
// machines can reach needs a token, which clients send as a bearer token.
func Listen(ctx context.Context, address, token string) (*Listener, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" && u.Path != httpPath {
		return nil, fmt.Errorf("%q is not http://IP:PORT", address)
	}
	at, err := listen.ParseURL("ws://" + u.Host)
	if err != nil {
		return nil, fmt.Errorf("%q is not http://IP:PORT", address)
	}
	if at.Exposed() && token == "" {
		return nil, fmt.Errorf("%s can be reached from other machines, and every client that reaches it can run commands: %w", address, ErrNoToken)
	}
	l, err := listen.At(ctx, at.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use: another program listens there, choose another port", address)
	}
	if err != nil {
		return nil, err
	}
	var auth *listen.Authenticator
	if token != "" {
		auth = listen.NewToken(token)
	}
	return &Listener{"http://" + l.Addr().String() + httpPath, auth, l}, nil
}

// ServeHTTP serves clients until the context ends.
func (s *Server) ServeHTTP(ctx context.Context, l *Listener) error {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		Logger: s.config.Log, SessionTimeout: s.config.HTTPIdle, MaxRequestBodyBytes: maxMessage,
	})
	mux := http.NewServeMux()
	mux.Handle(httpPath, s.limitClients(handler))
	web := &http.Server{Handler: checkAccess(l.auth, mux), ReadHeaderTimeout: httpHeaders, IdleTimeout: httpQuiet}
	done := make(chan error, 1)
	go func() { done <- web.Serve(l) }() // waited for below
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		s.Close() // ends the streams of clients
		end, cancel := context.WithTimeout(context.Background(), httpEnd)
		if web.Shutdown(end) != nil {
			web.Close()
		}
		cancel()
		err = <-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// limitClients refuses a client above maxHTTPClients. When a client ends its session, limitClients
// ends its calls first, because the end of the session waits for them.
func (s *Server) limitClients(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, clients := r.Header.Get("Mcp-Session-Id"), 0
		for session := range s.mcp.Sessions() {
			clients++
			if r.Method == http.MethodDelete && id != "" && session.ID() == id {
				s.endCommands(session)
			}
		}
		if id == "" && clients >= maxHTTPClients {
			http.Error(w, fmt.Sprintf("limit reached: %d clients", maxHTTPClients), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkAccess refuses requests of web pages of other origins, and requests without the token.
func checkAccess(auth *listen.Authenticator, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !sameOrigin(r) {
			http.Error(w, "requests of web pages are not served", http.StatusForbidden)
			return
		}
		if _, err := auth.Check(r); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin reports whether a request does not come from a foreign web page: without
// this check any web page could run commands on the machine of its reader. The MCP library checks the
// name in Host, against DNS rebinding.
func sameOrigin(r *http.Request) bool {
	origins, browser := r.Header["Origin"]
	if !browser {
		return true
	}
	return len(origins) == 1 && origins[0] == "http://"+r.Host
}
