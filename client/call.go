package client

import (
	"context"
	"strconv"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// A repeat says what to do with a request whose connection was lost before its
// answer came. One that surely was not sent is always sent again.
type repeat uint8

const (
	once   repeat = iota // it may have been carried out: the caller has to know
	always               // twice does what once does
)

// call sends a request, waits for the answer, and sees it through lost connections.
func (c *Client) call(ctx context.Context, r repeat, method string, params, result any) error {
	return c.callAs(ctx, r, ordinary, method, params, result)
}

func (c *Client) callAs(ctx context.Context, r repeat, u urgency, method string, params, result any) error {
	for {
		l, err := c.ready(ctx)
		if err != nil {
			return err
		}
		call, err := l.begin(ctx, u, method, params)
		if err == nil {
			err = call.wait(ctx, result)
		}
		lost, ok := isLost(err)
		switch {
		case !ok:
			return err
		case r == once && lost.sent:
			return &ambiguousError{lost: lost}
		}
	}
}

// ask is call for a question that is answered at once.
func (c *Client) ask(ctx context.Context, method string, params, result any) error {
	return c.onLink(ctx, func(l *link) error { return l.call(ctx, method, params, result) })
}

// onLink does something that changes nothing on the connection, and again on the next
// one if that is lost.
func (c *Client) onLink(ctx context.Context, do func(*link) error) error {
	for {
		l, err := c.ready(ctx)
		if err != nil {
			return err
		}
		err = do(l)
		if _, lost := isLost(err); !lost {
			return err
		}
	}
}
