package client

import (
	"context"
	"sync"
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

// extensions are the extensions of one client, by key.
type extensions struct {
	mu  sync.Mutex
	all map[any]Extension
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
	}
	return e
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
