// Package tethertest holds what tests of more than one package need: a cable
// that can be cut between a client and a server, and a client that treats
// output and recovery exactly as the reference client does.
package tethertest

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// cableBuffer is how much one direction of a link reads at once, and so the
// most that a frozen cable holds back in its own memory per direction.
const cableBuffer = 64 << 10

// dialTimeout bounds the connection to the target: it is on loopback.
const dialTimeout = 5 * time.Second

// A Cable is a TCP proxy on loopback that tests cut, mend, freeze and thaw. It
// forwards bytes and knows nothing of what they mean.
//
// A cable owns all its goroutines; Close returns after the last one has ended.
type Cable struct {
	target string
	tap    func(link int, fromTarget bool, data []byte)
	ln     net.Listener
	wg     sync.WaitGroup
	going  sync.RWMutex // held for reading while data of the target goes on and is tapped

	mu    sync.Mutex
	cut   bool
	done  bool
	thaw  chan struct{} // closed unless the cable is frozen
	links map[*cableLink]struct{}
	count int // links accepted while the cable was whole
}

// A cableLink is one connection through the cable.
type cableLink struct {
	number         int
	client, target net.Conn
	severed        chan struct{} // closed by sever, once
	once           sync.Once
}

// sever closes both sides; bytes that the kernel has taken already may arrive.
func (l *cableLink) sever() {
	l.once.Do(func() {
		close(l.severed)
		l.client.Close()
		l.target.Close()
	})
}

// A CableOption changes a new cable.
type CableOption func(*Cable)

// WithTap calls f with every piece of data: what the client sends before it goes
// on, so that f knows a request when it sees the answer, and what the target sends
// after it went on, as far as it did. Links are numbered from 1; calls for one
// direction of one link come in order, others come concurrently. f must not keep
// data.
func WithTap(f func(link int, fromTarget bool, data []byte)) CableOption {
	return func(c *Cable) { c.tap = f }
}

// NewCable lays a cable to target, which is HOST:PORT or ws://HOST:PORT. The
// test's cleanup closes it.
func NewCable(t testing.TB, target string, options ...CableOption) *Cable {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("cable: %v", err)
	}
	target = strings.TrimSuffix(strings.TrimPrefix(target, "ws://"), "/")
	c := &Cable{
		target: target,
		tap:    func(int, bool, []byte) {},
		ln:     ln,
		thaw:   make(chan struct{}),
		links:  map[*cableLink]struct{}{},
	}
	close(c.thaw)
	for _, option := range options {
		option(c)
	}
	c.wg.Go(c.accept) // ends when Close closes the listener
	t.Cleanup(c.Close)
	return c
}

// Addr returns HOST:PORT of the near end.
func (c *Cable) Addr() string { return c.ln.Addr().String() }

// URL returns the near end as a WebSocket URL.
func (c *Cable) URL() string { return "ws://" + c.Addr() }

// Links tells how many connections were let through so far.
func (c *Cable) Links() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Cut closes both sides of every connection and refuses new ones until Mend.
func (c *Cable) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	c.severLocked()
}

// Mend lets new connections through again.
func (c *Cable) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
}

// CutFor cuts the cable, waits for d and mends it.
func (c *Cable) CutFor(d time.Duration) {
	c.Cut()
	time.Sleep(d)
	c.Mend()
}

// Freeze stops forwarding in both directions without closing anything: both
// ends see a peer that has gone silent. New connections are accepted and silent.
func (c *Cable) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.thaw:
		c.thaw = make(chan struct{})
	default: // frozen already
	}
}

// Thaw forwards again what was held back, and all that follows.
func (c *Cable) Thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.thaw:
	default:
		close(c.thaw)
	}
}

// Settle returns when the tap has been called with all that a client may have acted on
// by now: it may get data a moment before the tap.
func (c *Cable) Settle() {
	c.going.Lock()
	defer c.going.Unlock()
}

// Close ends all connections and waits for the cable's goroutines.
func (c *Cable) Close() {
	c.mu.Lock()
	c.done = true
	c.ln.Close()
	c.severLocked()
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *Cable) severLocked() {
	for l := range c.links {
		l.sever()
	}
}

func (c *Cable) accept() {
	for {
		near, err := c.ln.Accept()
		if err != nil {
			return
		}
		c.wg.Go(func() { c.link(near) }) // ends with the connection, at the latest in Close
	}
}

// link carries one accepted connection until one side ends or the cable is cut.
func (c *Cable) link(near net.Conn) {
	l := c.join(near)
	if l == nil {
		refuse(near)
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { c.pump(l, l.target, l.client, false) })
	pumps.Go(func() { c.pump(l, l.client, l.target, true) })
	pumps.Wait()
	c.mu.Lock()
	delete(c.links, l)
	c.mu.Unlock()
}

// join connects near to the target. It returns nil if the cable is cut or
// closed, or the target does not answer.
func (c *Cable) join(near net.Conn) *cableLink {
	c.mu.Lock()
	down := c.cut || c.done
	c.mu.Unlock()
	if down {
		return nil
	}
	far, err := net.DialTimeout("tcp", c.target, dialTimeout)
	if err != nil {
		return nil
	}
	l := &cableLink{client: near, target: far, severed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut || c.done { // cut while we dialled
		far.Close()
		return nil
	}
	c.count++
	l.number = c.count
	c.links[l] = struct{}{}
	return l
}

// pump copies one direction. Its end severs the link: a half-closed link would
// be a third state that no test asks for.
func (c *Cable) pump(l *cableLink, dst, src net.Conn, fromTarget bool) {
	defer l.sever()
	buf := make([]byte, cableBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if !c.awaitThaw(l) {
				return
			}
			if c.forward(l, dst, buf[:n], fromTarget) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// forward sends data on and has it tapped.
func (c *Cable) forward(l *cableLink, dst net.Conn, data []byte, fromTarget bool) error {
	if !fromTarget {
		c.tap(l.number, fromTarget, data)
		_, err := dst.Write(data)
		return err
	}
	c.going.RLock()
	defer c.going.RUnlock()
	n, err := dst.Write(data) // a cut can leave a part of it written
	if n > 0 {
		c.tap(l.number, fromTarget, data[:n])
	}
	return err
}

// awaitThaw waits while the cable is frozen; false means that the link was cut.
func (c *Cable) awaitThaw(l *cableLink) bool {
	c.mu.Lock()
	thaw := c.thaw
	c.mu.Unlock()
	select {
	case <-l.severed:
		return false
	case <-thaw:
		return true
	}
}

// refuse ends a connection with a reset, so that the peer sees a refusal and not
// an orderly end.
func refuse(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
