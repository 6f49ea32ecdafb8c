package confine

import (
	"context"
	"time"
)

// A probeRun is one probe: it finds out which kind of sandbox works here.
type probeRun struct {
	began   time.Time
	done    chan struct{} // closed when support is set
	support Support
}

// If a probe fails, it is repeated when a command asks for a sandbox and the probe began
// more than reprobeAfter ago: the problem may have been solved, or may have been temporary.
// A probe that succeeds is not repeated.
const reprobeAfter = 30 * time.Second

// Begin starts the probe in the background, unless a command has started it.
func (c *Confiner) Begin() { c.latestProbe() }

// latestProbe returns the latest probe. If there is none, or if it is outdated,
// latestProbe starts a new one.
func (c *Confiner) latestProbe() *probeRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest != nil && !c.latest.outdated() {
		return c.latest
	}
	p := &probeRun{began: time.Now(), done: make(chan struct{})}
	c.latest = p
	c.tasks.Go(func() { // ends with the probe
		defer close(p.done)
		if err := c.open(); err != nil {
			p.support.Problem = err
		} else {
			p.support = c.probe(c.ctx)
		}
		p.support.log(c.config.Log)
	})
	return p
}

// Try probes one backend, whatever this Confiner uses.
func (c *Confiner) Try(ctx context.Context, b Backend) (Support, error) {
	used, err := c.Support(ctx) // and everything that sandboxes need besides a backend
	if err != nil || c.ledger == nil {
		return used, err
	}
	return c.probeOne(ctx, b), nil
}

// outdated reports whether the probe has failed and is to be repeated.
func (p *probeRun) outdated() bool {
	select {
	case <-p.done:
		return p.support.Problem != nil && time.Since(p.began) > reprobeAfter
	default:
		return false
	}
}

// NoSandbox is the Verdict of a machine where commands cannot be confined.
const NoSandbox = "none"

// Verdict is what the latest probe has found: the name of the backend, or NoSandbox. It is empty while that is not known.
func (c *Confiner) Verdict() string {
	c.mu.Lock()
	p := c.latest
	c.mu.Unlock()
	if p == nil {
		return ""
	}
	select {
	case <-p.done:
	default:
		return ""
	}
	switch {
	case p.support.Problem != nil:
		return NoSandbox
	case p.support.Native:
		return string(BackendNative)
	}
	return string(BackendBubblewrap)
}

// Support waits until it is known which kind of sandbox works here.
func (c *Confiner) Support(ctx context.Context) (Support, error) {
	p := c.latestProbe()
	select {
	case <-p.done:
		return p.support, nil
	case <-ctx.Done():
		return Support{}, context.Cause(ctx)
	}
}
