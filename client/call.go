package client

import (
	"context"
	"strconv"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// A repeat says what to do with a request whose connection was lost before its answer
// came. A request that surely was not sent is sent again in any case.
type repeat uint8

const (
	// atMostOnce is for a request that must not be carried out twice: if it may have been
	// carried out, the caller gets ErrAmbiguous.
	atMostOnce repeat = iota

	// idempotent is for a request that does the same twice as once: it is sent again.
	idempotent
)

// through does something on the present connection, or on the next one if there is none.
// If the connection is lost meanwhile, it is done again on the next one, as far as r
// allows that. This is the only place that repeats requests after a lost connection.
func (c *Client) through(ctx context.Context, r repeat, do func(*link) error) error {
	for {
		l, err := c.ready(ctx)
		if err != nil {
			return err
		}
		err = do(l)
		lost, ok := isLost(err)
		switch {
		case !ok:
			return err
		case r == atMostOnce && lost.sent:
			return &ambiguousError{lost: lost}
		}
	}
}

// call sends a request, waits for the answer, and repeats it after a lost connection as
// far as r allows that.
func (c *Client) call(ctx context.Context, r repeat, method string, params, result any) error {
	return c.callAs(ctx, r, ordinary, method, params, result)
}

func (c *Client) callAs(ctx context.Context, r repeat, u urgency, method string, params, result any) error {
	return c.through(ctx, r, func(l *link) error { return l.callAs(ctx, u, method, params, result) })
}
