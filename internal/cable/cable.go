package cable

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/peer"
)

// maxLinks limits the concurrent connections; more are refused.
const maxLinks = 1024

// Config configures a cable. Only Target is required.
type Config struct {
	// Target is the address of the server: ws://HOST:PORT, wss://HOST:PORT, both
	// with an optional path, or unix://PATH. A path replaces that of the client.
	Target string
	// Listen is the address for clients: ws://IP:PORT on loopback, or unix://PATH.
	// The default is any free port of 127.0.0.1.
	Listen string
	// TLS is used for wss://. Nil: certificates of this machine.
	TLS *tls.Config
	// Seed is the seed of the random numbers for jitter and Chance.
	Seed uint64
	// Tap is called with every message and control frame when its fate is decided,
	// before it is forwarded: a request comes before its answer. Calls for one
	// direction of one connection come in order, others are concurrent. Tap must
	// not call the cable.
	Tap func(Message)
	// Sent is called with every message and control frame right after all of it was
	// written to its receiver. It is not called for a message that a cut has stopped
	// before, or that a rule holds or puts behind others. The calls come as those of Tap
	// do, but an answer may be reported before its request.
	Sent func(Message)
	// Notice is called with every event, concurrently. It must not call the cable.
	Notice func(Event)
}

// A Cable is a proxy that causes faults. It owns all its goroutines; Close returns
// after the last one has ended. Its methods may be called concurrently.
type Cable struct {
	cfg Config
	url string
	ln  net.Listener

	ctx    context.Context // ends with the cable
	cancel context.CancelFunc
	wg     sync.WaitGroup

	conditions *conditions

	mu       sync.Mutex
	target   endpoint
	refusing bool
	links    map[*link]struct{}
	rules    []*Rule // replaced, never changed in place
	upgrades []*Rule // the same
	stats    Stats
	changed  chan struct{} // closed and replaced when a connection opens or ends
}

// Lay starts a cable. It ends with ctx or Close.
func Lay(ctx context.Context, cfg Config) (*Cable, error) {
	target, err := parseTarget(cfg.Target)
	if err != nil {
		return nil, err
	}
	ln, url, err := listen(ctx, cfg.Listen)
	if err != nil {
		return nil, err
	}
	c := &Cable{
		cfg: cfg, url: url, ln: ln, target: target,
		links: make(map[*link]struct{}), changed: make(chan struct{}),
		conditions: newConditions(cfg.Seed),
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.wg.Go(c.accept) // ends with the listener
	c.wg.Go(func() {  // ends with the context
		<-c.ctx.Done()
		ln.Close()
		c.severAll("the cable was removed", false)
	})
	return c, nil
}

// URL is the URL that a client dials.
func (c *Cable) URL() string { return c.url }

// Close ends all connections and waits for the cable's goroutines.
func (c *Cable) Close() {
	c.cancel()
	c.wg.Wait()
}

// Aim sends later connections to another target, as if the server had been
// replaced.
func (c *Cable) Aim(target string) error {
	t, err := parseTarget(target)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target = t
	return nil
}

// Links is how many connections have reached the target so far.
func (c *Cable) Links() int { return c.Stats().Links }

// Open is how many of them are open.
func (c *Cable) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.openLocked()
}

func (c *Cable) openLocked() (n int) {
	for l := range c.links {
		if l.number > 0 && !l.isSevered() {
			n++
		}
	}
	return n
}

// Stats returns the counters of the cable.
func (c *Cable) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// AwaitLinks waits until n connections have reached the target in total.
func (c *Cable) AwaitLinks(ctx context.Context, n int) error {
	return c.await(ctx, func() bool { return c.stats.Links >= n })
}

// AwaitOpen waits until exactly n connections are open.
func (c *Cable) AwaitOpen(ctx context.Context, n int) error {
	return c.await(ctx, func() bool { return c.openLocked() == n })
}

func (c *Cable) await(ctx context.Context, metLocked func() bool) error {
	for {
		c.mu.Lock()
		met, changed := metLocked(), c.changed
		c.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *Cable) changedLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Cut ends every connection, on both sides, and refuses new ones until Mend.
func (c *Cable) Cut() {
	c.mu.Lock()
	c.refusing = true
	c.stats.Cuts++
	c.mu.Unlock()
	c.notice(WasCut, 0, "")
	c.severAll("cut", false)
}

// Refuse refuses new connections until Mend; open ones stay. A refused connection
// is accepted by the kernel and reset at once.
func (c *Cable) Refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusing = true
}

// Mend lets new connections through again.
func (c *Cable) Mend() {
	c.mu.Lock()
	was := c.refusing
	c.refusing = false
	c.mu.Unlock()
	if was {
		c.notice(WasMended, 0, "")
	}
}

// CutFor cuts the cable, waits and mends it.
func (c *Cable) CutFor(d time.Duration) {
	c.Cut()
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
	c.Mend()
}

// Sever ends every connection; new ones pass.
func (c *Cable) Sever() { c.severAll("severed", false) }

// Reset does the same with a reset instead of an orderly end, if the transport has
// resets.
func (c *Cable) Reset() { c.severAll("reset", true) }

func (c *Cable) severAll(cause string, reset bool) {
	for _, l := range c.all() {
		l.sever(cause, reset)
	}
}

// all returns the current connections.
func (c *Cable) all() []*link {
	c.mu.Lock()
	defer c.mu.Unlock()
	links := make([]*link, 0, len(c.links))
	for l := range c.links {
		links = append(links, l)
	}
	return links
}

// Freeze stops forwarding without closing anything, in the given directions or in
// both: the ends see a silent peer. New connections are accepted and stay silent.
func (c *Cable) Freeze(directions ...Direction) {
	if c.conditions.freeze(both(directions)) {
		c.count(func(s *Stats) { s.Freezes++ })
		c.notice(WasFrozen, 0, "")
	}
}

// Thaw forwards everything that was held back, and everything that follows.
func (c *Cable) Thaw(directions ...Direction) {
	if c.conditions.thaw(both(directions)) {
		c.notice(WasThawed, 0, "")
	}
}

func both(directions []Direction) []Direction {
	for _, d := range directions {
		if d == Either {
			directions = nil
		}
	}
	if len(directions) == 0 {
		return []Direction{FromClient, FromServer}
	}
	return directions
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// HalfClose ends one direction of every connection: the receiver sees the end of
// the stream, further bytes of the sender are swallowed, and the other direction
// continues.
func (c *Cable) HalfClose(from Direction) {
	for _, l := range c.all() {
		if l.joined() {
			for _, d := range both([]Direction{from}) {
				l.lines[d].halfClose()
			}
		}
	}
}

// SetLatency delays everything that is sent from now on by latency, plus or minus
// jitter. The order is kept, and the throughput does not change.
func (c *Cable) SetLatency(latency, jitter time.Duration) {
	c.conditions.setLatency(latency, jitter)
}

// SetRate limits each direction of each connection to the given rate; 0 removes the
// limit.
func (c *Cable) SetRate(bytesPerSecond int64) {
	c.conditions.setRate(bytesPerSecond)
}

// Inject sends a message that no peer has sent, on the newest connection, after
// everything that is already queued. Rules do not see it, and it need not be JSON.
func (c *Cable) Inject(from Direction, message string) error {
	l := c.newest(from)
	if l == nil {
		return ErrNoLink
	}
	l.inject(encode(from, Text, []byte(message)))
	return nil
}

// newest returns a line of the newest open connection that has been upgraded, or
// nil.
func (c *Cable) newest(from Direction) *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	var newest *link
	for l := range c.links {
		if l.number > 0 && l.isWebSocket() && !l.isSevered() && (newest == nil || l.number > newest.number) {
			newest = l
		}
	}
	if newest == nil {
		return nil
	}
	return newest.lines[from]
}

func (c *Cable) notice(kind EventKind, link int, detail string) {
	if c.cfg.Notice != nil {
		c.cfg.Notice(Event{time.Now(), kind, link, detail})
	}
}

// accept serves connections until the listener is closed.
func (c *Cable) accept() {
	for {
		near, err := c.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // about this connection, or for lack of descriptors: the next may work
			c.notice(Refused, 0, fmt.Sprintf("accept: %v", err))
			select {
			case <-time.After(acceptPause):
			case <-c.ctx.Done():
			}
			continue
		}
		if err := peer.Check(near); err != nil { // the target would see this process as its client
			c.notice(Refused, 0, err.Error())
			near.Close()
			continue
		}
		c.wg.Go(func() { c.serve(near) }) // ends with the connection, at the latest in Close
	}
}

// acceptPause limits how often a failing accept is repeated.
const acceptPause = 10 * time.Millisecond
