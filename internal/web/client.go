package web

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/host"
	"github.com/tetherexec/tether/wire"
)

// maxRedirects is how many redirects a request follows.
const maxRedirects = 10

// Config says how requests are made. The zero value works.
type Config struct {
	// Env is the server's environment, as NAME=value: proxies, certificates
	// and the variables that headers may ask for.
	Env []string

	// RootCAs are the certificates to trust instead of the system's.
	RootCAs *x509.CertPool

	// Log hears of settings that had to be ignored. Nil: nothing is said.
	Log *slog.Logger
}

// A Client makes requests and keeps their connections for the next ones. One
// is enough for a server. Its methods may be called at the same time.
type Client struct {
	env     environment
	proxies *host.Proxies
	roots   func() *x509.CertPool // read when first needed
	pool    pool

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	workers sync.WaitGroup // writers of requests, watches over idle connections
}

// New returns a client. Close it.
func New(config Config) *Client {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{env: newEnvironment(config.Env)}
	c.proxies = host.ProxiesOf(config.Env, config.Log)
	c.roots = sync.OnceValue(func() *x509.CertPool { return loadRoots(config, c.env) })
	c.pool.client = c
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends all requests, also those whose body is being read, and closes
// all connections. It returns when the client's goroutines have ended.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.pool.close()
	c.workers.Wait()
}

// spawn runs f in a goroutine that Close waits for; false after Close.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.workers.Go(f)
	}
	return !c.closed
}

// Do makes a request, with the redirects that it asks to follow, and returns
// when the head of the answer is in. Any status is an answer. The response
// must be closed; it ends with ctx, with the request's timeout and with the
// client. Errors are *Error.
func (c *Client) Do(ctx context.Context, p *wire.HTTPRequestParams) (*Response, error) {
	r, err := newRequest(p, c.env)
	if err != nil {
		return nil, err
	}
	if p.TimeoutMs != nil && *p.TimeoutMs == 0 {
		return nil, failed(context.DeadlineExceeded, "route-aware request timed out")
	}
	if c.ctx.Err() != nil {
		return nil, unsent(r.target, ErrClosed)
	}
	ctx, cancel := c.lifetime(ctx, p.TimeoutMs)
	for hops := 0; ; hops++ {
		h, b, err := c.roundTrip(ctx, r, cancel)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			cancel()
			return nil, unsent(r.target, err)
		}
		next, err := following(p, r, h)
		if next == nil && err == nil {
			return &Response{
				Status:    h.status,
				Headers:   h.header.wire(),
				Body:      b,
				requestID: p.RequestID,
				length:    b.length,
			}, nil
		}
		if err == nil && hops == maxRedirects {
			err = failed(nil, "too many redirects")
		}
		if err != nil {
			b.Close()
			return nil, err
		}
		b.cancel = func() {} // the context is still needed
		b.skip()
		r = next
	}
}

// following returns the next hop, nil if the answer is the final one.
func following(p *wire.HTTPRequestParams, r *request, h *head) (*request, error) {
	location := h.header.values("location")
	if p.RedirectPolicy == wire.RedirectStop || !isRedirect(h.status) || location == nil || !isASCII(location[0]) {
		return nil, nil
	}
	next, ok, err := r.redirected(h.status, location[0])
	if !ok {
		return nil, err
	}
	return next, nil
}

// lifetime bounds ctx by the client's life and by a timeout in milliseconds.
func (c *Client) lifetime(ctx context.Context, timeout *uint64) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	release := func() {}
	if timeout != nil && *timeout <= math.MaxInt64/uint64(time.Millisecond) { // else it is longer than any life
		ctx, release = context.WithTimeout(ctx, time.Duration(*timeout)*time.Millisecond)
	}
	return ctx, func() {
		stop()
		release()
		cancel(context.Canceled)
	}
}

// roundTrip makes one hop.
func (c *Client) roundTrip(ctx context.Context, r *request, cancel context.CancelFunc) (*head, *body, error) {
	via := c.routeTo(r.target)
	for {
		cn, err := c.connect(ctx, via, !r.isSafe())
		if err != nil {
			return nil, nil, err
		}
		x, h, err := c.exchange(ctx, cn, r)
		if err == nil {
			b, err := newBody(x, h, r, cancel)
			if err != nil {
				x.end(false)
				return nil, nil, err
			}
			return h, b, nil
		}
		// A server may close an idle connection while a request is on its way.
		f, ok := errors.AsType[*failure](err)
		if !ok || !cn.reused || ctx.Err() != nil {
			return nil, nil, err
		}
		c.pool.ended(cn.route, cn.waited, true)
		if !f.unseen && !r.isSafe() {
			return nil, nil, err
		}
	}
}

// connect returns a pooled connection or a new one. A careful caller has a request
// that must not be sent twice.
func (c *Client) connect(ctx context.Context, via route, careful bool) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if cn := c.pool.take(via, careful); cn != nil {
		return cn, nil
	}
	return c.dial(ctx, via)
}
