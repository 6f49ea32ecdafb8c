package client

import (
	"context"
	"errors"
	"time"
)

// A missing event is one that has not come although later ones have.
type missing struct {
	last  uint64 // the last event before it; 0 and zero since: none is missing
	since time.Time
	full  bool // no more events can wait for it
	asked bool // the server was asked for it and has not sent it
}

// noteMissing notes whether an event is missing. It returns true if another event is missing
// than before, or if it has become urgent. The caller has p.mu.
func (p *Process) noteMissing(full bool) bool {
	if !p.seq.behind() || p.end.failure != nil {
		p.missing = missing{}
		return false
	}
	if p.missing.since.IsZero() || p.missing.last != p.seq.last {
		p.missing = missing{last: p.seq.last, since: time.Now(), full: full}
		return true
	}
	urgent := full && !p.missing.full
	p.missing.full = p.missing.full || full
	return urgent
}

// refillStep is how often processes are checked while events are missing.
const refillStep = 100 * time.Millisecond

// refill asks the server for events that stay missing. Notifications are not lost on the
// way, but servers and proxies have bugs.
func (c *Client) refill() {
	for {
		due := c.processes.allIncomplete()
		for _, p := range due {
			c.refillOne(p)
		}
		var again <-chan time.Time
		if len(due) > 0 {
			again = time.After(refillStep)
		}
		select {
		case <-again:
		case <-c.processes.wake:
		case <-c.ctx.Done():
			return
		}
	}
}

// errNotFilled means that the server has not answered in time. It is asked again later.
var errNotFilled = errors.New("the server has not sent the missing events in time")

// refillOne asks for the missing event of one process, if it has been missing for too long.
func (c *Client) refillOne(p *Process) {
	p.mu.Lock()
	open := !p.missing.since.IsZero() && p.end.failure == nil
	before := p.missing.last
	due := open && (p.missing.full && !p.missing.asked || time.Since(p.missing.since) >= c.opts.timeouts.missing)
	if !open { // under the lock: an event that is missed from now on is noted after this
		c.processes.setIncomplete(p, false)
	}
	p.mu.Unlock()
	if !due {
		return
	}
	err := c.Through(c.ctx, Idempotent, func(l *Link) error {
		ctx, cancel := context.WithTimeoutCause(c.ctx, c.opts.FollowUp, errNotFilled)
		defer cancel()
		return p.catchUp(ctx, l)
	})
	p.mu.Lock()
	if !p.missing.since.IsZero() { // still missing: ask again after the same time
		p.missing.since, p.missing.asked = time.Now(), p.missing.last == before
	}
	p.mu.Unlock()
	if err == nil || err == errNotFilled || c.ctx.Err() != nil {
		return
	}
	c.giveUp(p, &RecoveryError{p.id, err})
}
