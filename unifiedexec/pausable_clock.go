package unifiedexec

import (
	"sync"
	"time"
)

// A pausableClock is a clock that stops while the user is asked something, so that a call that waits
// for output does not run out of time meanwhile.
type pausableClock struct {
	mu      sync.Mutex
	pauses  int
	since   time.Time // when the first of the present pauses began
	paused  time.Duration
	resumed chan struct{} // closed when the last pause ends
}

// A deadline is a time on a pausableClock.
type deadline struct {
	clock  *pausableClock
	at     time.Time
	paused time.Duration // how long the clock had been stopped when the deadline was made
}

// in returns the deadline after a duration.
func (p *pausableClock) in(d time.Duration) deadline {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	return deadline{p, now.Add(d), p.stopped(now)}
}

// stopped is how long the clock has been stopped so far. The caller has p.mu.
func (p *pausableClock) stopped(now time.Time) time.Duration {
	if p.pauses == 0 {
		return p.paused
	}
	return p.paused + now.Sub(p.since)
}

// left is how much time is left. If the clock is stopped now, resumed is a channel that is closed
// when the clock goes on; otherwise nil.
func (d deadline) left() (left time.Duration, resumed <-chan struct{}) {
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	now := time.Now()
	left = d.at.Sub(now) + d.clock.stopped(now) - d.paused
	if d.clock.pauses > 0 {
		return left, d.clock.resumed
	}
	return left, nil
}

// pause stops the clock until resume is called.
func (p *pausableClock) pause() (resume func()) {
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
