package client

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/client/internal/inbox"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// A Client is one session with a server. It is safe for concurrent use.
type Client struct {
	opts    Options
	dialer  dialer
	session session
	ids     ids

	ctx    context.Context // ends with the client
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // all goroutines of this client
	closed atomic.Bool    // the program has called Close

	state      lifecycle
	processes  processTable
	network    networkPolicy
	extensions extensions
}

// A session is what the server has granted when the session was opened.
type session struct {
	id           string        // a secret
	ttl          time.Duration // for which the server keeps it without a connection
	acknowledges bool          // the server expects acknowledgements of output
}

// ids makes names that were not used before in the session.
type ids struct {
	prefix string
	last   atomic.Uint64
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
	c := &Client{opts: o.withDefaults(), dialer: d, processes: newProcessTable(), network: newNetworkPolicy()}
	c.ids.prefix = rand.Text()[:12] + "-"
	c.state.changed = make(chan struct{})
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	failed := make(chan struct{})
	if c.opts.OnState != nil {
		c.state.unreported = inbox.New[*Status](maxStates)
		c.tasks.Go(func() { // ends after Failed, which c.run reports last, or when no session could be opened
			c.state.unreported.Drain(failed, func(s *Status) (more bool) {
				c.opts.OnState(*s)
				return s.State != Failed
			})
		})
	}
	l, err := c.firstConnection(ctx)
	if err != nil {
		close(failed)
		c.cancel(err)
		c.tasks.Wait()
		return nil, &AttemptError{d.String(), err}
	}
	c.session = session{id: l.session, ttl: referenceTTL, acknowledges: l.has(FeatureAck)}
	if l.tether != nil {
		const most = uint64(math.MaxInt64 / time.Millisecond)
		c.session.ttl = time.Duration(min(l.tether.TTLMs, most)) * time.Millisecond
	}
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

// Close ends the connection and the client. The server keeps the session and its
// processes for the session's time to live; [Client.End] ends them. Processes of
// this client fail with ErrClosed. [Options.OnState] has been called with Failed when
// Close returns.
func (c *Client) Close() error {
	c.closed.Store(true)
	l := c.link()
	l.close(&rpc.CloseError{Code: rpc.CloseNormal})
	select {
	case <-l.ended: // after the close frame was sent
	case <-c.ctx.Done():
	}
	c.cancel(ErrClosed)
	c.tasks.Wait()
	return nil
}

// SessionID is the secret with which [Options.Resume] takes over the session.
func (c *Client) SessionID() string { return c.session.id }

// PublicID names the session in lists of the server; it is empty if the server has
// no public ids.
func (c *Client) PublicID() string {
	if l := c.link(); l.tether != nil {
		return l.tether.PublicID
	}
	return ""
}

// Host is the name of the server in its fleet, if the connection goes through a gateway, or else empty.
func (c *Client) Host() string {
	if l := c.link(); l.tether != nil {
		return l.tether.Host
	}
	return ""
}

// TTL is how long the server keeps the session without a connection.
func (c *Client) TTL() time.Duration { return c.session.ttl }

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
	FeatureKeeper     = "keeper"
	FeatureReload     = "reload"
	FeatureLimits     = "limits"
	FeatureUsage      = "usage"
	FeatureSurvivors  = "survivors"
	FeatureFailure    = "failure"
	FeatureConsole    = "console"
	FeaturePorts      = "ports"
	FeaturePortList   = "portList"
	FeaturePortListen = "portListen"
)

// Has reports whether the server has a feature beyond the reference protocol.
func (c *Client) Has(feature string) bool { return c.link().has(feature) }

// Info is the server's description of its machine, from the handshake of the newest
// connection.
func (c *Client) Info() wire.EnvironmentInfo { return c.link().info }

// Connection returns a context that ends with the present connection: for callers that
// do not want to wait for another one. If there is none, it has ended already.
func (c *Client) Connection() context.Context {
	if status, l := c.state.now(); status.State == Connected {
		return l.conn.Context()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotConnected)
	return ctx
}

// Status returns the state of the client.
func (c *Client) Status() Status {
	status, _ := c.state.now()
	return status
}

// link is the newest connection, which may have ended.
func (c *Client) link() *Link {
	_, l := c.state.now()
	return l
}

// spawn runs a task on behalf of a caller. It returns false if the client has failed: then
// Close may already have waited for the tasks.
func (c *Client) spawn(task func()) bool {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if c.state.status.State == Failed {
		return false
	}
	c.tasks.Go(task) // c.run has not ended yet: it needs the lock to change the state to Failed
	return true
}

// NewID returns an id that was never used before.
func (c *Client) NewID() string { return c.ids.prefix + strconv.FormatUint(c.ids.last.Add(1), 10) }

// isLost reports whether err is the end of a connection, after which there will be
// another one. The end of the session is not.
func isLost(err error) (lost *lostError, ok bool) {
	if _, over := errors.AsType[*SessionError](err); over {
		return nil, false
	}
	return errors.AsType[*lostError](err)
}

var _ rpc.Handler = (*Link)(nil)
