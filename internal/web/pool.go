package web

import (
	"errors"
	"os"
	"sync"
	"time"
)

const (
	maxIdle        = 64               // idle connections in all; the oldest goes first
	maxIdlePerHost = 8                // idle connections of one route
	idleTimeout    = 90 * time.Second // then an idle connection is closed
	maxPatiences   = 256              // routes whose patience is remembered

	// minPatience is what a server must show at least, if it shows any: the pool
	// measures no better.
	minPatience = 100 * time.Millisecond
)

// A pool keeps idle connections. Each is watched: one that the peer closes or
// that says something unasked is dropped at once, so that a taken connection
// is as good as the pool can know.
//
// It cannot know of an end that is still on its way. So it also learns how long
// servers keep idle connections, and keeps a distance from that with requests
// that cannot be repeated.
type pool struct {
	client *Client

	mu       sync.Mutex
	idle     []*conn                 // oldest first
	patience map[route]time.Duration // how long servers were seen to wait before they close
	done     bool
}

// put hands a connection to the pool, which may close it.
func (p *pool) put(c *conn) {
	if c.stream.SetReadDeadline(time.Now().Add(idleTimeout)) != nil {
		c.close()
		return
	}
	c.reused, c.since, c.idle, c.idled = true, time.Now(), make(chan struct{}), nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || !p.client.spawn(func() { p.watch(c) }) {
		c.close()
		return
	}
	p.idle = append(p.idle, c)
	p.trimLocked(c.route)
}

// trimLocked closes what is more than the limits after a connection of route
// was added. The watch of a closed connection ends by itself.
func (p *pool) trimLocked(r route) {
	same, oldest := 0, -1
	for i, c := range p.idle {
		if c.route == r {
			same++
			if oldest < 0 {
				oldest = i
			}
		}
	}
	switch {
	case same > maxIdlePerHost:
	case len(p.idle) > maxIdle:
		oldest = 0
	default:
		return
	}
	p.idle[oldest].close()
	p.idle = append(p.idle[:oldest], p.idle[oldest+1:]...)
}

// watch waits until the connection is taken, times out, or is of no more use.
func (p *pool) watch(c *conn) {
	defer close(c.idle)
	_, c.idled = c.reader.Peek(1)
	if p.remove(c) { // nobody took it
		p.ended(c.route, time.Since(c.since), !errors.Is(c.idled, os.ErrDeadlineExceeded))
		c.close()
	}
}

// ended remembers that a connection ended which was idle for some time: the server
// closed it, or was more patient than the pool.
func (p *pool) ended(r route, idle time.Duration, byServer bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !byServer {
		delete(p.patience, r)
		return
	}
	if p.patience == nil {
		p.patience = map[route]time.Duration{}
	}
	known, ok := p.patience[r]
	if ok && idle > known {
		idle = known + (idle-known)/8 // a close may be noticed late
	}
	for other := range p.patience {
		if ok || len(p.patience) < maxPatiences {
			break
		}
		delete(p.patience, other) // any: a forgotten one is learned again
	}
	p.patience[r] = idle
}

// remove takes a connection off the list and tells whether it was there.
func (p *pool) remove(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.idle {
		if other == c {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			return true
		}
	}
	return false
}

// take returns the newest usable idle connection of a route, or nil. A careful
// taker gets none that the server may be about to close.
func (p *pool) take(r route, careful bool) *conn {
	for {
		c := p.pop(r, careful)
		if c == nil {
			return nil
		}
		c.stream.SetReadDeadline(time.Unix(1, 0)) // wakes the watch
		<-c.idle
		if errors.Is(c.idled, os.ErrDeadlineExceeded) && !hungUp(c.socket) && c.stream.SetReadDeadline(time.Time{}) == nil {
			return c
		}
		p.ended(c.route, c.waited, true)
		c.close()
	}
}

func (p *pool) pop(r route, careful bool) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		c := p.idle[i]
		if c.route != r {
			continue
		}
		c.waited = time.Since(c.since)
		if patience, ok := p.patience[r]; ok && careful && (c.waited > patience/2 || patience < minPatience) {
			return nil // and the others have waited longer
		}
		p.idle = append(p.idle[:i], p.idle[i+1:]...)
		return c
	}
	return nil
}

// close drops every idle connection, and those that come later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	for _, c := range p.idle {
		c.close()
	}
	p.idle = nil
}
