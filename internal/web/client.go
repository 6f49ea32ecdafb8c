package web

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/host"
	"github.com/tetherexec/tether/wire"
)

const (
	maxRedirects = 10 // redirects that a request follows

	// maxSkipped is the length up to which the body of a redirect is read to its end, so that
	// the connection can be used for the next hop.
	maxSkipped = 2 << 10
)

// Config says how requests are made. The zero value works.
type Config struct {
	// Env is the server's environment, as NAME=value: proxies, certificates
	// and the variables that headers may ask for.
	Env []string

	// RootCAs are the certificates to trust instead of the system's.
	RootCAs *x509.CertPool

	// Log gets warnings about settings that are ignored; nil discards them.
	Log *slog.Logger
}

// A Client makes requests and keeps their connections for later requests. A server needs only one.
// It is safe for concurrent use.
type Client struct {
	env       environment
	proxies   *host.Proxies
	roots     func() *x509.CertPool // read when first needed
	transport *http.Transport
	sockets   sockets

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

// New returns a client. Close it.
func New(config Config) *Client {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{env: newEnvironment(config.Env)}
	c.proxies = host.ProxiesOf(config.Env, config.Log)
	c.roots = sync.OnceValue(func() *x509.CertPool { return loadRoots(config, c.env) })
	c.transport = c.newTransport()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends all requests, also while their body is being read, and closes all connections. The
// goroutines of net/http end with the connections.
func (c *Client) Close() {
	c.cancel()
	c.sockets.close()
	c.transport.CloseIdleConnections()
}

// Do makes a request, follows redirects if the parameters say so, and returns when the head of the
// answer has arrived. Any status is an answer. The response must be closed; it ends with ctx,
// with the request's timeout and with the client. Errors are *Error.
func (c *Client) Do(ctx context.Context, p *wire.HTTPRequestParams) (*Response, error) {
	r, err := newRequest(p, c.env)
	if err != nil {
		return nil, err
	}
	if p.TimeoutMs != nil && *p.TimeoutMs == 0 {
		return nil, failed(context.DeadlineExceeded, "route-aware request timed out")
	}
	if c.ctx.Err() != nil {
		return nil, noAnswer(r.target, ErrClosed)
	}
	ctx, cancel := c.lifetime(ctx, p.TimeoutMs)
	response, err := c.follow(ctx, p, r)
	if err != nil {
		cancel()
		return nil, err
	}
	return newResponse(p, response, cancel), nil
}

// follow makes the request, follows redirects, and returns the final answer.
func (c *Client) follow(ctx context.Context, p *wire.HTTPRequestParams, r *request) (*http.Response, error) {
	for hops := 0; ; hops++ {
		response, err := c.roundTrip(ctx, r)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, noAnswer(r.target, err)
		}
		next, err := following(p, r, response)
		if next == nil && err == nil {
			return response, nil
		}
		if err == nil && hops == maxRedirects {
			err = failed(nil, "too many redirects")
		}
		if length := response.ContentLength; err == nil && length > 0 && length <= maxSkipped {
			io.CopyN(io.Discard, response.Body, length+1) // to its end
		}
		response.Body.Close()
		if err != nil {
			return nil, err
		}
		r = next
	}
}

// following returns the next hop, nil if the answer is the final one.
func following(p *wire.HTTPRequestParams, r *request, response *http.Response) (*request, error) {
	location := response.Header["Location"]
	if p.RedirectPolicy == wire.RedirectStop || !isRedirect(response.StatusCode) || location == nil || !host.IsASCII(location[0]) {
		return nil, nil
	}
	next, ok, err := r.redirected(response.StatusCode, location[0])
	if !ok {
		return nil, err
	}
	return next, nil
}

// lifetime returns a context that also ends with the client and after a timeout in milliseconds.
func (c *Client) lifetime(ctx context.Context, timeout *uint64) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	release := func() {}
	if timeout != nil && *timeout <= math.MaxInt64/uint64(time.Millisecond) { // a larger number means no timeout
		ctx, release = context.WithTimeout(ctx, time.Duration(*timeout)*time.Millisecond)
	}
	return ctx, func() {
		stop()
		release()
		cancel(context.Canceled)
	}
}

// roundTrip makes one hop.
func (c *Client) roundTrip(ctx context.Context, r *request) (*http.Response, error) {
	via := c.routeTo(r.target)
	via.request = ctx
	hop, err := r.build(context.WithValue(ctx, routeKey{}, &via), &via)
	if err != nil {
		return nil, err
	}
	response, err := c.transport.RoundTrip(hop)
	if err != nil {
		return nil, err
	}
	if err := checkHead(response); err != nil {
		response.Body.Close()
		return nil, err
	}
	return response, nil
}
