package web

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// dialed is an idle connection to a server, and the server's end of it.
func dialed(t *testing.T, c *Client) (cn *conn, peer *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cn, err = c.dial(t.Context(), route{address: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return cn, accepted.(*net.TCPConn)
}

// A request is known to be unseen only if the connection had ended before it came.
func TestUnseenRequests(t *testing.T) {
	readHeadOf := func(peer *net.TCPConn) {
		var b [1]byte
		io.ReadFull(peer, b[:])
	}
	tests := map[string]struct {
		before func(cn *conn, peer *net.TCPConn) // the request is sent
		after  func(peer *net.TCPConn)
		unseen bool
	}{
		"closed before": {before: func(cn *conn, peer *net.TCPConn) {
			peer.Close()
			for !hungUp(cn.socket) { // until the end is here
			}
		}, unseen: true},
		"closed after":              {after: func(peer *net.TCPConn) { readHeadOf(peer); peer.CloseWrite() }},
		"closed with unread bytes":  {after: func(peer *net.TCPConn) { readHeadOf(peer); peer.Close() }},
		"reset without a last word": {after: func(peer *net.TCPConn) { readHeadOf(peer); peer.SetLinger(0); peer.Close() }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := client(t)
			cn, peer := dialed(t, c)
			if test.before != nil {
				test.before(cn, peer)
			}
			done := make(chan struct{})
			go func() { // ends with the connection
				defer close(done)
				if test.after != nil {
					test.after(peer)
				}
			}()
			r, err := newRequest(with(get("http://"+cn.route.address), "POST", "hello"), c.env)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = c.exchange(t.Context(), cn, r)
			<-done
			f, ok := errors.AsType[*failure](err)
			if !ok || f.unseen != test.unseen {
				t.Errorf("got %v, unseen %v", err, ok && f.unseen)
			}
		})
	}
}

// Requests that cannot be repeated keep away from connections that the server may
// be about to close.
func TestPatience(t *testing.T) {
	c := client(t)
	cn, _ := dialed(t, c)
	give := func(idle time.Duration) {
		c.pool.put(cn)
		c.pool.mu.Lock()
		cn.since = time.Now().Add(-idle)
		c.pool.mu.Unlock()
	}
	take := func(careful, want bool) {
		t.Helper()
		got := c.pool.take(cn.route, careful)
		if (got != nil) != want {
			t.Errorf("careful %v: got a connection: %v", careful, got != nil)
		}
	}
	give(time.Minute)
	take(true, true) // nothing is known yet
	c.pool.ended(cn.route, 10*time.Second, true)
	give(time.Second)
	take(true, true)
	give(6 * time.Second)
	take(true, false)
	take(false, true)
	c.pool.ended(cn.route, 18*time.Second, true) // a little more patient
	give(6 * time.Second)
	take(true, false)
	c.pool.ended(cn.route, idleTimeout, false)
	take(true, true)
	c.pool.ended(cn.route, minPatience-1, true)
	give(0)
	take(true, false)
	for i := range 2 * maxPatiences {
		c.pool.ended(route{name: string(rune(i))}, time.Second, true)
	}
	if n := len(c.pool.patience); n > maxPatiences {
		t.Errorf("%d routes are remembered", n)
	}
	cn.close()
}
