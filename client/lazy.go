package client

import (
	"context"
	"errors"
	"sync"
)

// ErrNotReady means that [Lazy.Now] was called before the first connection.
var ErrNotReady = errors.New("there is no connection to the server yet")

// A Lazy opens a session when it is first needed, and a new one when the session is lost. It
// is safe for concurrent use.
type Lazy struct {
	dial    func(context.Context, Options) (*Client, error)
	release func(*Client) error
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // attempts, and clients that are being closed

	mu      sync.Mutex
	opts    Options
	client  *Client  // the newest; nil before the first
	attempt *attempt // under way; nil: none
	failure error    // of the last attempt, if it failed
	closed  bool
}

// An attempt is shared by all calls of Get that wait for it.
type attempt struct {
	done   chan struct{} // closed when the rest is set
	client *Client
	err    error
}

// NewLazy makes sessions with the server at an address, see [Dial].
func NewLazy(address string, o Options) *Lazy {
	return newLazy(o, func(ctx context.Context, o Options) (*Client, error) { return Dial(ctx, address, o) })
}

// NewLazyCommand makes sessions over a command, see [DialCommand]. The command is
// started with the first use.
func NewLazyCommand(cmd TransportCommand, o Options) *Lazy {
	return newLazy(o, func(ctx context.Context, o Options) (*Client, error) { return DialCommand(ctx, cmd, o) })
}

// NewLazyFunc makes sessions with a function. release is called instead of [Client.Close] for each
// client that dial has returned, before the next dial and by [Lazy.Close]; it may be called again
// for a client that it has released.
func NewLazyFunc(dial func(context.Context) (*Client, error), release func(*Client) error) *Lazy {
	l := newLazy(Options{}, func(ctx context.Context, _ Options) (*Client, error) { return dial(ctx) })
	l.release = release
	return l
}

func newLazy(o Options, dial func(context.Context, Options) (*Client, error)) *Lazy {
	l := &Lazy{dial: dial, release: (*Client).Close, opts: o}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Get returns the client. If there is none, or the session of the last one was lost,
// Get makes one attempt to open a session. Concurrent calls share the attempt and its
// outcome. A failed attempt is not remembered: the next Get makes another one. The context
// bounds the wait, not the attempt, which goes on for other calls.
//
// A client that is recovering is returned too; its calls wait. The Lazy owns the client:
// callers must not close it.
func (l *Lazy) Get(ctx context.Context) (*Client, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	if c := l.client; c != nil && c.Status().State != Failed {
		l.mu.Unlock()
		return c, nil
	}
	a := l.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		l.attempt = a
		l.tasks.Go(func() { l.try(a) })
	}
	l.mu.Unlock()
	select {
	case <-a.done:
		return a.client, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// try makes one attempt, bounded by the timeouts of the options.
func (l *Lazy) try(a *attempt) {
	defer close(a.done)
	l.mu.Lock()
	old, opts := l.client, l.opts
	l.mu.Unlock()
	if old != nil {
		l.release(old) // it has failed
		opts.Resume = ""
	}
	c, err := l.dial(l.ctx, opts)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempt, l.failure = nil, err
	if l.closed {
		if err == nil {
			l.tasks.Go(func() { l.release(c) })
		}
		c, err = nil, ErrClosed
	}
	if err == nil {
		l.client = c
	}
	a.client, a.err = c, err
}

// Now returns the client if it is connected at this moment. It never waits and never
// connects. The error is ErrNotReady before the first connection, ErrNotConnected while the
// client is recovering, and the reason of the loss if the session is lost.
func (l *Lazy) Now() (*Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, ErrClosed
	case l.client == nil:
		return nil, ErrNotReady
	}
	switch s := l.client.Status(); s.State {
	case Connected:
		return l.client, nil
	case Recovering:
		return nil, ErrNotConnected
	default:
		return nil, s.Err
	}
}

// A Readiness is what to expect of the next call of [Lazy.Get].
type Readiness uint8

// The values of Readiness.
const (
	Pending      Readiness = iota + 1 // not tried yet, or being tried, or recovering
	Ready                             // there is a connection
	Disconnected                      // the last attempt failed, or the session was lost
)

func (r Readiness) String() string {
	return [...]string{"unknown", "pending", "ready", "disconnected"}[r]
}

// Status returns the readiness and, if it is Disconnected, the reason. It never waits and
// never connects; [Client.Ping] asks the server itself.
func (l *Lazy) Status() (Readiness, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return Disconnected, ErrClosed
	case l.attempt != nil:
		return Pending, nil
	case l.failure != nil:
		return Disconnected, l.failure
	case l.client == nil:
		return Pending, nil
	}
	switch s := l.client.Status(); s.State {
	case Connected:
		return Ready, nil
	case Recovering:
		return Pending, nil
	default:
		return Disconnected, s.Err
	}
}

// Close ends the attempt that is under way and closes the client.
func (l *Lazy) Close() error {
	l.mu.Lock()
	l.closed = true
	c := l.client
	l.mu.Unlock()
	l.cancel()
	l.tasks.Wait()
	if c != nil {
		return l.release(c)
	}
	return nil
}
