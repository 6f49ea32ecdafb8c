package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tetherexec/tether/wire"
)

// run owns the state: it waits for the end of each connection and replaces it, until
// the client is closed or the session is lost.
func (c *Client) run() {
	for {
		l := c.link()
		<-l.ended
		if c.closed.Load() {
			c.fail(ErrClosed)
			return
		}
		next, err := c.recover(l.err)
		if err != nil {
			c.fail(err)
			return
		}
		c.install(next)
	}
}

// install makes a connection the current one and lets the waiting calls go on.
func (c *Client) install(l *Link) {
	c.state.connected(l)
	if !c.session.acknowledges {
		return
	}
	// The last acknowledgements on the old connection may be lost. Those that come from
	// now on are sent on the new one.
	for _, a := range c.processes.lastFinals() {
		l.acknowledge(a)
	}
	for _, p := range c.processes.all() {
		p.ackAgain()
	}
}

// fail ends the client. Each call that waits, and each process, gets the same error.
func (c *Client) fail(err error) {
	processes := c.processes.close(err)
	c.state.disconnected(Failed, err)
	for _, p := range processes {
		p.fail(err)
	}
	c.extensions.lost(err)
	c.cancel(err)
}

// recoveryTimeout bounds the attempts to resume the session.
func (c *Client) recoveryTimeout() time.Duration {
	if c.opts.RecoveryTimeout > 0 {
		return c.opts.RecoveryTimeout
	}
	// Both ends start their clocks separately.
	return c.session.ttl - min(c.session.ttl/6, 30*time.Second)
}

// recover returns a connection that continues the session, with all processes
// caught up. If there is none, the error says why the session is lost.
func (c *Client) recover(loss *lostError) (*Link, error) {
	c.opts.Log.Info("connection lost", "err", loss)
	limit := c.recoveryTimeout()
	ctx, cancel := context.WithTimeoutCause(c.ctx, limit, ErrRecoveryTimeout)
	defer cancel()
	c.state.disconnected(Recovering, loss)
	c.extensions.lost(loss)
	failed := func(cause error) (*Link, error) {
		if c.closed.Load() {
			return nil, ErrClosed
		}
		return nil, &SessionError{loss, cause}
	}
	if over := sessionOver(loss); over != nil {
		return failed(over)
	}
	if c.session.id == "" {
		return failed(errors.New("missing session id"))
	}
	var last error // why the last attempt failed
	over := func() (*Link, error) {
		cause := context.Cause(ctx)
		if cause == ErrRecoveryTimeout {
			cause = &timeoutError{limit, last}
		}
		return failed(cause)
	}
	refusals := 0
	for attempt := 0; ; attempt++ {
		l, err := c.resume(ctx)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			if last == nil && !errors.Is(err, context.Cause(ctx)) {
				last = err
			}
			return over()
		}
		if over := sessionOver(err); over != nil {
			return failed(over)
		}
		last = err
		if isRefusal(err) {
			refusals++
		}
		if !c.retryable(err) || refusals > 1 {
			return failed(err)
		}
		c.opts.Log.Debug("attempt to resume failed", "attempt", attempt+1, "err", err)
		c.state.attempted(Recovering, attempt+1, err)
		select {
		case <-time.After(c.pause(attempt+1, err)):
		case <-ctx.Done():
			return over()
		}
	}
}

// pause is how long to wait before the next attempt, after so many failed attempts, of
// which the last one had this error.
func (c *Client) pause(failed int, err error) time.Duration {
	d := backOff[min(failed, len(backOff)-1)]
	if hasCode(err, wire.CodeSessionAttached) {
		d = min(d, attachedPause)
	}
	switch local := c.dialer.local(); {
	case local && failed < localBurst:
		d = min(d, localPause)
	case local:
		d = localSteadyPause
	}
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
}

// codeTransportClosed is the code of a server whose own end of the connection was closed.
const codeTransportClosed = -32000

// retryable reports whether another attempt may succeed where this one failed.
func (c *Client) retryable(err error) bool {
	if _, lost := isLost(err); lost {
		return true // the next connection may last
	}
	if e, ok := errors.AsType[*ServerError](err); ok {
		return e.Code == wire.CodeSessionAttached || e.Code == codeTransportClosed && e.is(transportClosed)
	}
	if _, ok := errors.AsType[*ProtocolError](err); ok {
		return false
	}
	return !errors.Is(err, errSpawn)
}

func isRefusal(err error) bool {
	e, ok := errors.AsType[*UpgradeError](err)
	return ok && e.refused()
}

// resume is one attempt: connect, resume the session, catch up with all processes.
func (c *Client) resume(ctx context.Context) (*Link, error) {
	l, err := c.connect(ctx, c.session.id)
	if err != nil {
		return nil, err
	}
	err = c.catchUpAll(ctx, l)
	if err == nil && l.dead() {
		<-l.ended
		err = l.err
	}
	if err != nil {
		l.close(err)
		<-l.ended
		return nil, err
	}
	return l, nil
}

// catchUpAll catches up with each process whose start was answered. A process that
// cannot be continued is given up; the others go on.
func (c *Client) catchUpAll(ctx context.Context, l *Link) error {
	due := c.processes.all()
	due = slices.DeleteFunc(due, func(p *Process) bool { return !p.started.Load() })
	type outcome struct {
		p   *Process
		err error
	}
	results := make(chan outcome, len(due))
	slots := make(chan struct{}, parallelCatchUp)
	for _, p := range due {
		c.tasks.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results <- outcome{p, p.catchUp(ctx, l)}
		})
	}
	var first error
	for range due {
		r := <-results
		if r.err == nil {
			continue
		}
		if _, lost := isLost(r.err); lost || ctx.Err() != nil {
			first = r.err
			continue
		}
		c.giveUp(r.p, &RecoveryError{r.p.id, r.err})
	}
	return first
}

// A RecoveryError is a process that could not be continued on a new connection.
type RecoveryError struct {
	ProcessID string
	Err       error
}

func (e *RecoveryError) Error() string {
	return "failed to recover process " + e.ProcessID + ": " + e.Err.Error()
}
func (e *RecoveryError) Unwrap() error { return e.Err }

// giveUp fails a process and ends it on the server, unless the server does not know it: then
// another process may already have the same id.
func (c *Client) giveUp(p *Process, err error) {
	c.processes.remove(p)
	p.fail(err)
	if errors.Is(err, ErrUnknownProcess) {
		return
	}
	c.spawn(func() { // if there is no other connection, the process ends with the session
		c.callAs(c.ctx, Idempotent, patient, wire.MethodProcessTerminate, wire.ProcessParams{ProcessID: p.id}, nil)
	})
}
