package client

import (
	"context"
	"fmt"
	"time"

	"github.com/tetherexec/tether/wire"
)

// Limits of the time for an answer.
const (
	infoTimeout   = 30 * time.Second
	statusTimeout = 10 * time.Second
)

// Environment asks the server about its machine; [Client.Info] has the answer of the last
// handshake. It waits up to 30 s for the answer.
func (c *Client) Environment(ctx context.Context) (wire.EnvironmentInfo, error) {
	var info wire.EnvironmentInfo
	err := c.askWithin(ctx, infoTimeout, wire.MethodEnvironmentInfo, &info)
	return info, err
}

// Ping asks the server whether it is ready. It waits up to 10 s for the answer.
func (c *Client) Ping(ctx context.Context) error {
	var r wire.StatusResult
	if err := c.askWithin(ctx, statusTimeout, wire.MethodEnvironmentStatus, &r); err != nil {
		return err
	}
	if r.Status != "ready" {
		return fmt.Errorf("the server is not ready: its status is %s", r.Status)
	}
	return nil
}

// askWithin is an idempotent call with a time limit for the answer. The time until there is
// a connection does not count.
func (c *Client) askWithin(ctx context.Context, limit time.Duration, method string, result any) error {
	return c.Through(ctx, Idempotent, func(l *Link) error {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, &lateError{method, limit})
		defer cancel()
		return l.Call(ctx, method, wire.Empty{}, result)
	})
}

// A lateError is an answer that did not come in time.
type lateError struct {
	method string
	after  time.Duration
}

func (e *lateError) Error() string {
	return "the server has not answered `" + e.method + "` for " + shortDuration(e.after)
}
func (e *lateError) Is(target error) bool { return target == context.DeadlineExceeded }
func (e *lateError) Timeout() bool        { return true }
