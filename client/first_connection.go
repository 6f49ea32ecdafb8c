package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/tetherexec/tether/wire"
)

// firstConnection makes the first connection. If the server cannot be reached, it tries again for
// Options.Wait. If another connection still has the session to be resumed, it tries again
// for attachedTimeout: the server may not have noticed yet that the last client is gone.
func (c *Client) firstConnection(ctx context.Context) (*Link, error) {
	until := time.Now().Add(c.opts.Wait)
	var attached time.Time // until when a session that another connection has is asked for
	l, err := c.connect(ctx, c.opts.Resume)
	for failed := 1; err != nil && ctx.Err() == nil; failed++ {
		end := until
		isAttached := c.opts.Resume != "" && hasCode(err, wire.CodeSessionAttached)
		switch {
		case isAttached && attached.IsZero():
			attached = time.Now().Add(attachedTimeout)
			end = attached
		case isAttached:
			end = attached
		case !c.maySucceedLater(err):
			return nil, err
		}
		pause := c.pause(failed, err)
		if time.Until(end) <= pause {
			return nil, err
		}
		if !isAttached {
			c.state.attempted(Connecting, failed, &AttemptError{c.dialer.String(), err})
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		attempt, cancel := ctx, context.CancelFunc(func() {})
		if !isAttached {
			attempt, cancel = context.WithDeadline(ctx, until)
		}
		last := err
		l, err = c.connect(attempt, c.opts.Resume)
		cutShort := attempt.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && cutShort {
			return nil, last // the error of this attempt is only that time was up
		}
	}
	return l, err
}

// maySucceedLater reports whether a later attempt may find the server. It may not if a server has
// refused this client, or if it is not the server that the address means.
func (c *Client) maySucceedLater(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, errSpeaksTLS) {
		return false
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" { // an alert of TLS
		return false
	}
	if e, ok := errors.AsType[*CommandError](err); ok && e.refusal {
		return false
	}
	return c.retryable(err) && !isRefusal(err)
}
