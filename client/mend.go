package client

import (
	"context"
	"errors"
	"time"
)

// A hole is an event that has not come although later ones have.
type hole struct {
	last  uint64 // the last event before it; 0 and zero since: there is none
	since time.Time
	full  bool // no more can wait for it
	asked bool // the server was asked and did not fill it
}

// noteHole notes whether an event is missing, and reports a new hole or one that has
// become urgent. The caller has p.mu.
func (p *Process) noteHole(full bool) bool {
	if !p.seq.behind() || p.failure != nil {
		p.hole = hole{}
		return false
	}
	if p.hole.since.IsZero() || p.hole.last != p.seq.last {
		p.hole = hole{last: p.seq.last, since: time.Now(), full: full}
		return true
	}
	urgent := full && !p.hole.full
	p.hole.full = p.hole.full || full
	return urgent
}

// mendStep is how often holes are looked at while there are some.
const mendStep = 100 * time.Millisecond

// mendSoon has a process looked after that misses an event.
func (c *Client) mendSoon(p *Process) {
	c.mu.Lock()
	c.holes[p] = true
	c.mu.Unlock()
	select {
	case c.mending <- struct{}{}:
	default:
	}
}

// mend fills holes that do not close by themselves. Notifications are not lost on
// the way, but servers and proxies have bugs.
func (c *Client) mend() {
	for {
		c.mu.Lock()
		var due []*Process
		for p := range c.holes {
			due = append(due, p)
		}
		c.mu.Unlock()
		for _, p := range due {
			c.mendOne(p)
		}
		var again <-chan time.Time
		if len(due) > 0 {
			again = time.After(mendStep)
		}
		select {
		case <-again:
		case <-c.mending:
		case <-c.ctx.Done():
			return
		}
	}
}

// errNotFilled means that the server has not answered in time. It is asked again later.
var errNotFilled = errors.New("the server has not sent the missing events in time")

// mendOne looks after one hole.
func (c *Client) mendOne(p *Process) {
	p.mu.Lock()
	open := !p.hole.since.IsZero() && p.failure == nil
	before := p.hole.last
	due := open && (p.hole.full && !p.hole.asked || time.Since(p.hole.since) >= c.opts.tempo.hole)
	p.mu.Unlock()
	if !open {
		c.mu.Lock()
		delete(c.holes, p)
		c.mu.Unlock()
		return
	}
	if !due {
		return
	}
	err := c.Through(c.ctx, Idempotent, func(l *Link) error {
		ctx, cancel := context.WithTimeoutCause(c.ctx, c.opts.FollowUp, errNotFilled)
		defer cancel()
		return p.catchUp(ctx, l)
	})
	p.mu.Lock()
	if !p.hole.since.IsZero() { // it is not closed; the next question can wait
		p.hole.since, p.hole.asked = time.Now(), p.hole.last == before
	}
	p.mu.Unlock()
	if err == nil || err == errNotFilled || c.ctx.Err() != nil {
		return
	}
	c.giveUp(p, &RecoveryError{p.id, err})
}
