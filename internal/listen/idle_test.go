package listen

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// A connection, and work besides the connections, each keep a server running. The idle time begins when the last of
// them is gone.
func TestIdleTimeBeginsWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const after = time.Minute
		var work atomic.Bool
		i := NewIdle(after, work.Load)
		ended := make(chan time.Time, 1)
		defer i.begin(func() { ended <- time.Now() })()
		use := func(what string, begin, end func()) {
			begin()
			time.Sleep(10 * after) // on the test's own clock
			if len(ended) > 0 {
				t.Fatal("ended with " + what)
			}
			end()
		}
		use("a connection", i.connected, i.disconnected)
		use("work", func() { work.Store(true) }, func() { work.Store(false); i.Released() })
		use("work after the connection", func() { i.connected(); work.Store(true); i.disconnected() }, func() { work.Store(false); i.Released() })
		use("a connection after the work", func() { i.connected(); i.Released() }, i.disconnected)
		left := time.Now()
		if stayed := (<-ended).Sub(left); stayed != after {
			t.Errorf("ended %v after the last use", stayed)
		}
	})
}

// Serve counts its connections, those above the limit too.
func TestServeCountsConnections(t *testing.T) {
	t.Parallel()
	i := NewIdle(time.Hour, func() bool { return false })
	count := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(hang.Limit); ; time.Sleep(time.Millisecond) {
			i.mu.Lock()
			n := i.connections
			i.mu.Unlock()
			if n == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d connections, want %d", n, want)
			}
		}
	}
	address := serveHandler(t, Handler{Connections: NewConnections(1, i, nil), Serve: func(ctx context.Context, stream *rpc.WebSocket, _ Client) {
		for {
			if _, err := stream.Read(); err != nil {
				return
			}
		}
	}})
	first, _ := upgrade(t, address)
	count(1)
	second, _ := upgrade(t, address)
	second.Close()
	count(1)
	first.Close()
	count(0)
}
