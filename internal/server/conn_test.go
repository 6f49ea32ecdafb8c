package server

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// A log outlives the connections that have listened to it and must not keep them in
// memory: otherwise a process that is resumed a thousand times would keep a
// thousand.
func TestLogReleasesEndedConnections(t *testing.T) {
	log := outlog.New(outlog.NewPool(t.TempDir(), 1<<20), outlog.Config{})
	defer log.End()
	gone := func() weak.Pointer[conn] {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &conn{rpc: rpc.New(ctx, rpc.NewWebSocket(near, nil), rpc.Config{Log: slog.New(slog.DiscardHandler)})}
		p := &session.Process{ID: "p", Log: log}
		c.Push(p, 0, false)
		c.pushes.end()
		c.Push(p, 0, false) // after the end of the connection
		if len(c.pushes.active) != 0 {
			t.Errorf("%d pushes after the end", len(c.pushes.active))
		}
		return weak.Make(c)
	}()
	for deadline := time.Now().Add(hang.Limit); gone.Value() != nil; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("the log still holds the connection")
		}
	}
	log.Close() // keeps the log alive until here
}
