//go:build unix

package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// serveWithIdleExit runs a server with Config.IdleExit; ended gets the time when it
// has ended.
func serveWithIdleExit(t *testing.T, cfg server.Config) (url string, ended <-chan time.Time) {
	t.Helper()
	cfg.StateDir = t.TempDir()
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.Open(t.Context(), listen.Config{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan time.Time, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // waited for by the cleanup
		err := s.Serve(ctx, l)
		now := time.Now()
		if err != nil || s.Close() != nil {
			t.Errorf("Serve: %v", err)
		}
		done <- now
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		for range done {
		}
	})
	return l.URL, done
}

func TestIdleServerEnds(t *testing.T) {
	const idleTime = 100 * time.Millisecond
	begin := time.Now()
	_, ended := serveWithIdleExit(t, server.Config{IdleExit: idleTime})
	if lived := (<-ended).Sub(begin); lived < idleTime {
		t.Errorf("ended after %v", lived)
	}
}

// A session without a connection keeps the server running. The idle time begins when it is gone.
func TestServerInUseDoesNotEnd(t *testing.T) {
	t.Parallel()
	const idleTime = 2 * time.Second // a client must have connected by then
	const ttl = idleTime + idleTime/10
	url, ended := serveWithIdleExit(t, server.Config{IdleExit: idleTime, SessionTTL: ttl})
	c := tethertest.Connect(t, url)
	left := time.Now()
	c.Close()
	if stayed := (<-ended).Sub(left); stayed < ttl+idleTime {
		t.Errorf("ended %v after the last client had left its session", stayed)
	}
}
