package client

import "context"

// A Repeat says what to do with a request whose connection was lost before its answer
// came. A request that surely was not sent is sent again in any case.
type Repeat uint8

const (
	// AtMostOnce is for a request that must not be carried out twice. If it may have been
	// carried out, the caller gets ErrAmbiguous.
	AtMostOnce Repeat = iota

	// Idempotent is for a request that has the same effect once or twice. It is sent again.
	Idempotent
)

// Through calls do with the present connection, or with the next one if there is none. If
// the connection is lost meanwhile, it calls do again with the next one, as far as r allows
// that. This is the only place that repeats requests after a lost connection.
func (c *Client) Through(ctx context.Context, r Repeat, do func(*Link) error) error {
	for {
		l, err := c.state.ready(ctx)
		if err != nil {
			return err
		}
		err = do(l)
		lost, ok := isLost(err)
		switch {
		case !ok:
			return err
		case r == AtMostOnce && lost.sent:
			return &ambiguousError{lost: lost}
		}
	}
}

// Call sends a request, waits for the answer, and repeats it after a lost connection as
// far as r allows that.
func (c *Client) Call(ctx context.Context, r Repeat, method string, params, result any) error {
	return c.callAs(ctx, r, ordinary, method, params, result)
}

func (c *Client) callAs(ctx context.Context, r Repeat, u urgency, method string, params, result any) error {
	return c.Through(ctx, r, func(l *Link) error { return l.callAs(ctx, u, method, params, result) })
}
