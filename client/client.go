package client

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// A Client is one session with a server. It is safe for concurrent use.
type Client struct {
	opts   Options
	dialer dialer
	ctx    context.Context // ends with the client
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // everything that runs for this client
	closed atomic.Bool
	prefix string // of ids that must not have been used before

	policies  chan struct{}      // questions of the server that are being decided
	decisions chan decisionEvent // for OnNetworkDecision and its like; made by telling
	telling   sync.Once          // with the first of them
	counter   atomic.Uint64      // for ids

	acknowledges atomic.Bool   // the server wants to know what has arrived
	kept         *atomic.Int64 // bytes in the logs of all processes
	refilling    chan struct{} // there are holes

	states chan Status // for OnState

	mu         sync.Mutex
	state      State
	status     Status // the newest that OnState was told, or would have been
	link       *Link  // the newest connection; usable while Connected
	links      int
	failure    error         // while Failed
	changed    chan struct{} // closed with the next change of the state
	session    string
	ttl        time.Duration // for which the server keeps the session
	processes  map[string]*Process
	incomplete map[*Process]bool // processes that miss an event
	finals     []wire.AckParams  // last acknowledgements, in case they were lost

	extensions extensions
}

// Dial opens a session with the server at an address: ws://HOST:PORT,
// wss://HOST:PORT or unix:///PATH. It tries once, or for [Options.Wait], and two seconds
// more if it is to resume a session that still has another connection. The context bounds
// all of it.
func Dial(ctx context.Context, address string, o Options) (*Client, error) {
	d, err := dialerOf(address, o)
	if err != nil {
		return nil, err
	}
	return open(ctx, d, o)
}

// DialCommand opens a session over the standard input and output of a command, such
// as "ssh host tether bridge". When the command ends, it is started again to resume
// the session.
func DialCommand(ctx context.Context, cmd TransportCommand, o Options) (*Client, error) {
	d, err := commandDialer(cmd, o)
	if err != nil {
		return nil, err
	}
	return open(ctx, d, o)
}

func open(ctx context.Context, d dialer, o Options) (*Client, error) {
	c := &Client{
		opts: o.withDefaults(), dialer: d, prefix: rand.Text()[:12] + "-",
		policies: make(chan struct{}, maxPolicyRequests), changed: make(chan struct{}),
		processes: make(map[string]*Process), incomplete: make(map[*Process]bool), refilling: make(chan struct{}, 1),
		state: Recovering, session: o.Resume, kept: new(atomic.Int64),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	if c.opts.OnState != nil {
		c.states = make(chan Status, maxStates)
		c.tasks.Go(c.tellStates)
	}
	l, err := c.first(ctx)
	if err != nil {
		if c.states != nil {
			close(c.states) // so that tellStates ends: there is no Failed
		}
		c.cancel(err)
		c.tasks.Wait()
		return nil, &AttemptError{d.String(), err}
	}
	c.session = l.session
	c.ttl = referenceTTL
	if l.tether != nil {
		const most = uint64(math.MaxInt64 / time.Millisecond)
		c.ttl = time.Duration(min(l.tether.TTLMs, most)) * time.Millisecond
	}
	c.acknowledges.Store(l.has(FeatureAck))
	c.install(l)
	c.tasks.Go(c.run)
	c.tasks.Go(c.refill)
	return c, nil
}

func (c *Client) initializeParams(resume string) wire.InitializeParams {
	p := wire.InitializeParams{ClientName: c.opts.Name}
	if resume != "" {
		p.ResumeSessionID = &resume
	}
	yes := true
	p.Tether = &wire.InitializeTether{Acks: &yes, Goodbye: &yes}
	if c.opts.Label != "" {
		p.Tether.Label = &c.opts.Label
	}
	if c.opts.TTL > 0 {
		ms := uint64(c.opts.TTL.Milliseconds())
		p.Tether.TTLMs = &ms
	}
	return p
}

// Close ends the connection and the client. The server keeps the session, and what
// runs in it, for its time to live; [Client.End] leaves nothing behind. Processes of
// this client fail with ErrClosed. [Options.OnState] has been told Failed when Close
// returns.
func (c *Client) Close() error {
	c.closed.Store(true)
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	l.close(&rpc.CloseError{Code: rpc.CloseNormal})
	select {
	case <-l.ended: // with a goodbye that was heard
	case <-c.ctx.Done():
	}
	c.cancel(ErrClosed)
	c.tasks.Wait()
	return nil
}

// SessionID is the secret with which [Options.Resume] takes over the session.
func (c *Client) SessionID() string { return c.session }

// PublicID names the session in lists of the server; it is empty if the server has
// none.
func (c *Client) PublicID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link.tether == nil {
		return ""
	}
	return c.link.tether.PublicID
}

// TTL is how long the server keeps the session without a connection.
func (c *Client) TTL() time.Duration { return c.ttl }

// Features of tether servers, for [Client.Has].
const (
	FeatureAck        = "ack"
	FeatureCloseStdin = "closeStdin"
	FeatureResize     = "resize"
	FeatureSignal     = "signal"
	FeatureList       = "list"
	FeatureObserve    = "observe"
	FeatureRetryStart = "retryStart"
	FeatureTermSize   = "termSize"
	FeatureUpload     = "upload"
	FeatureOnce       = "once"
	FeatureRemote     = "remoteControl"
	FeatureEndSession = "endSession"
	FeatureKeepNewest = "keepNewest"
	FeatureHostPorts  = "hostPorts"
	FeatureConcurrent = "concurrent"
	FeatureAttributes = "fileAttributes"
	FeatureOneStream  = "oneStream"
)

// Has reports whether the server has a feature beyond the reference protocol.
func (c *Client) Has(feature string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.has(feature)
}

// Info is what the server said about itself when the session was opened.
func (c *Client) Info() wire.EnvironmentInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.info
}

// Connection returns a context that ends with the present connection: for callers that
// do not want to wait for another one. If there is none, it has ended already.
func (c *Client) Connection() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == Connected {
		return c.link.conn.Context()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotConnected)
	return ctx
}

// Status tells where the client stands.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// spawn runs a task on behalf of a caller. False: the client has failed, and Close may
// have counted its tasks already.
func (c *Client) spawn(task func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == Failed {
		return false
	}
	c.tasks.Go(task) // c.run is still among them: it needs c.mu to fail
	return true
}

// NewID returns an id that was never used before.
func (c *Client) NewID() string {
	return c.prefix + itoa(c.counter.Add(1))
}

// ready returns the connection, once there is one.
func (c *Client) ready(ctx context.Context) (*Link, error) {
	for {
		c.mu.Lock()
		l, state, err, changed := c.link, c.state, c.failure, c.changed
		c.mu.Unlock()
		switch {
		case state == Failed:
			return nil, err
		case state == Connected && !l.dead():
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// setState changes the state and wakes who waits for it. The caller has c.mu.
func (c *Client) setState(s Status) {
	c.state = s.State
	close(c.changed)
	c.changed = make(chan struct{})
	c.tell(s)
}

// tell queues a status for OnState. If OnState is slow, the oldest one that waits is
// dropped; Failed is the last one, so it is never dropped. The caller has c.mu.
func (c *Client) tell(s Status) {
	c.status = s
	if c.states == nil {
		return
	}
	for {
		select {
		case c.states <- s:
			return
		default:
		}
		select {
		case <-c.states:
		default:
		}
	}
}

// tellStates calls OnState. It ends with Failed, which c.run queues as its last act, or
// when open has failed.
func (c *Client) tellStates() {
	for s := range c.states {
		c.opts.OnState(s)
		if s.State == Failed {
			return
		}
	}
}

// isLost reports whether err is the end of a connection, as opposed to that of the
// session: then there will be another connection.
func isLost(err error) (lost *lostError, ok bool) {
	if _, over := errors.AsType[*SessionError](err); over {
		return nil, false
	}
	return errors.AsType[*lostError](err)
}

var _ rpc.Handler = (*Link)(nil)
