package client

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// An Extension is the part of a client that another package adds, for methods of the
// protocol that this package does not know. client/web has one.
type Extension interface {
	// Notification processes a notification of the server. It is called in the order of
	// arrival, must not wait, and ignores methods that it does not know. An error ends the
	// connection.
	Notification(l *Link, method string, params []byte) error

	// Lost is called when a connection has ended, and when the client has failed. Until it
	// returns there is no other connection.
	Lost(err error)
}

// A Peeker is an Extension that reads its most frequent notification directly from the message, before it is parsed.
type Peeker interface {
	Extension

	// Peek reports whether it has taken the message, which belongs to it then. It must not wait. An error ends the connection.
	Peek(msg []byte) (taken bool, err error)
}

// extensions are the extensions of one client, by key.
type extensions struct {
	mu      sync.Mutex
	all     map[any]Extension
	peekers atomic.Pointer[[]Peeker] // those of all that are Peekers
}

// Extend returns the client's extension with this key. The first call makes it.
func (c *Client) Extend(key any, make func() Extension) Extension {
	x := &c.extensions
	x.mu.Lock()
	defer x.mu.Unlock()
	e, exists := x.all[key]
	if !exists {
		if x.all == nil {
			x.all = map[any]Extension{}
		}
		e = make()
		x.all[key] = e
		if p, ok := e.(Peeker); ok {
			peekers := append(slices.Clone(x.peeking()), p)
			x.peekers.Store(&peekers)
		}
	}
	return e
}

func (x *extensions) peeking() []Peeker {
	if peekers := x.peekers.Load(); peekers != nil {
		return *peekers
	}
	return nil
}

// peek offers a message to the extensions.
func (x *extensions) peek(msg []byte) (taken bool, err error) {
	for _, p := range x.peeking() {
		if taken, err := p.Peek(msg); taken || err != nil {
			return taken, err
		}
	}
	return false, nil
}

// Lifetime is a context that ends with the client.
func (c *Client) Lifetime() context.Context { return c.ctx }

// list returns a copy, so that extensions are called without the lock: they may use the
// client.
func (x *extensions) list() (all []Extension) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.all {
		all = append(all, e)
	}
	return all
}

func (x *extensions) notification(l *Link, method string, params []byte) error {
	for _, e := range x.list() {
		if err := e.Notification(l, method, params); err != nil {
			return err
		}
	}
	return nil
}

func (x *extensions) lost(err error) {
	for _, e := range x.list() {
		e.Lost(err)
	}
}
