package unifiedexec

import (
	"sync"
	"time"
)

// A patience is a clock that stops while the user is asked something, so that a call that waits
// for output does not run out of time meanwhile.
type patience struct {
	mu      sync.Mutex
	pauses  int
	since   time.Time // when the first of the present pauses began
	paused  time.Duration
	resumed chan struct{} // closed when the last pause ends
}

// A deadline is a time on the clock of a patience.
type deadline struct {
	patience *patience
	at       time.Time
	paused   time.Duration // how long the clock had been stopped when the deadline was made
}

// in returns the deadline after a duration.
func (p *patience) in(d time.Duration) deadline {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	return deadline{p, now.Add(d), p.stoodStill(now)}
}

// stoodStill is how long the clock has been stopped so far. The caller has p.mu.
func (p *patience) stoodStill(now time.Time) time.Duration {
	if p.pauses == 0 {
		return p.paused
	}
	return p.paused + now.Sub(p.since)
}

// left is how much time is left. If the clock is stopped now, resumed is a channel that is closed
// when the clock goes on; otherwise nil.
func (d deadline) left() (left time.Duration, resumed <-chan struct{}) {
	d.patience.mu.Lock()
	defer d.patience.mu.Unlock()
	now := time.Now()
	left = d.at.Sub(now) + d.patience.stoodStill(now) - d.paused
	if d.patience.pauses > 0 {
		return left, d.patience.resumed
	}
	return left, nil
}

// pause stops the clock until resume is called.
func (p *patience) pause() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pauses++; p.pauses == 1 {
		p.since, p.resumed = time.Now(), make(chan struct{})
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.pauses--; p.pauses == 0 {
			p.paused += time.Since(p.since)
			close(p.resumed)
		}
	})
}
