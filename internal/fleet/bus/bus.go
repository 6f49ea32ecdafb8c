package bus

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// dialTime limits one attempt to connect, with all that the hub is asked before it accepts the client.
	dialTime = 5 * time.Second

	// minPause and maxPause limit the random time between two attempts. A thousand hosts must not come back in one moment.
	minPause = 250 * time.Millisecond
	maxPause = 2 * time.Second

	// pingInterval and maxPings decide how soon a dead connection is noticed: after 15 s at the most.
	pingInterval = 5 * time.Second
	maxPings     = 2

	// writeTime is how long the machine may take to accept what is written. A longer one is a connection that is dead.
	writeTime = 10 * time.Second
)

// Connect connects to a hub. If the hub is away, it returns a connection that keeps trying, and logs why. If the hub refuses the
// credentials, or its certificate is not trusted, it returns an error; a refusal after the first attempt is logged, and tried again.
// ctx ends the wait for the first attempt.
func Connect(ctx context.Context, c Config) (*nats.Conn, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	urls, err := c.urls()
	if err == nil {
		err = errors.Join(c.Check(), c.checkCredentials())
	}
	if err != nil {
		return nil, err
	}
	o := nats.GetDefaultOptions()
	if o.TLSConfig, err = c.tls(); err != nil {
		return nil, err
	}
	for _, u := range urls {
		o.Servers = append(o.Servers, u.String())
	}
	w := newWatcher(c)
	d := &dialer{}
	d.ctx.Store(&ctx)
	w.configure(&o)
	o.CustomDialer = d
	o.SkipHostLookup = true // the dialer does it, and can be interrupted
	if c.Credentials != "" {
		o.UserJWT, o.SignatureCB = c.userJWT, c.sign // nats.UserCredentials would expand variables in the path
	}
	conn, err := o.Connect()
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	w.conn.Store(conn)
	background := context.Background()
	d.ctx.Store(&background)
	if err := w.first(ctx, conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return conn, nil
}

// configure sets the options that do not depend on the URL.
func (w *watcher) configure(o *nats.Options) {
	o.Name = w.config.Name
	o.InboxPrefix = w.config.Inbox
	o.Timeout = dialTime
	o.RetryOnFailedConnect = true
	o.AllowReconnect = true
	o.MaxReconnect = -1
	o.IgnoreAuthErrorAbort = true
	o.IgnoreDiscoveredServers = true // they might not be encrypted
	o.ReconnectBufSize = -1          // nothing is held back
	o.PingInterval = pingInterval
	o.MaxPingsOut = maxPings
	o.FlusherTimeout = writeTime
	o.ReconnectOnFlusherError = true
	o.CustomReconnectDelayCB = func(int) time.Duration {
		w.checkRefused()
		return minPause + rand.N(maxPause-minPause)
	}
	o.AsyncErrorCB = w.asyncError
	o.ReconnectErrCB = func(_ *nats.Conn, err error) { w.failed(err) }
	o.DisconnectedErrCB = func(c *nats.Conn, err error) { w.disconnected(c, err) }
	o.ReconnectedCB = func(*nats.Conn) { w.connected() }
	o.ConnectedCB = func(*nats.Conn) { w.connected() }
}

// first waits for the result of the first attempt, which the library has made. It returns an error only if there is no sense in
// another attempt.
func (w *watcher) first(ctx context.Context, conn *nats.Conn) error {
	select {
	case err := <-w.result:
		switch {
		case ctx.Err() != nil && err != nil:
			return context.Cause(ctx)
		case isRefusal(err):
			return err
		}
		return nil
	case <-ctx.Done():
		if conn.IsConnected() {
			return nil
		}
		return context.Cause(ctx)
	}
}

// isRefusal reports whether an attempt has failed because of who the client is, or who the hub is.
func isRefusal(err error) bool {
	for _, target := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired, nats.ErrSecureConnWanted} {
		if errors.Is(err, target) {
			return true
		}
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted
}

// A dialer makes connections. A connection that is being made ends with the context.
type dialer struct {
	ctx atomic.Pointer[context.Context]
}

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	nd := net.Dialer{Timeout: dialTime}
	return nd.DialContext(*d.ctx.Load(), network, address)
}
