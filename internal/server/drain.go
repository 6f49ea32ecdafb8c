package server

import (
	"fmt"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

const (
	// stopReserve is the part of the time for a Drain that is left when the server stops to accept: for joinTime, answerTime
	// and goneTime, on a machine that is busy.
	stopReserve = 500 * time.Millisecond

	// joinTime is how long clients that have just connected may take to open their session.
	joinTime = 20 * time.Millisecond

	// toldTime is how long a client that does not read may hold up the end of the others.
	toldTime = 20 * time.Millisecond
	// answerTime is the same for a request that is being carried out.
	answerTime = 300 * time.Millisecond
	// goneTime is how long clients may take to close their connections. What they send after that is answered
	// with a reset, and they do not know whether it was carried out.
	goneTime = 10 * time.Millisecond

	// drainPoll is how often Drain looks.
	drainPoll = time.Millisecond
)

// ErrDrained is returned by Serve after Drain.
var ErrDrained = fmt.Errorf("drained: %w", listen.ErrLeft)

// errReplaced is the reason of all connections that end because another process replaces this one. Clients resume
// their sessions, as after any lost connection.
var errReplaced = &rpc.CloseError{Code: rpc.CloseRestart, Reason: wire.ReasonReplaced}

// drainState is what Drain has to know.
type drainState struct {
	leave chan struct{} // closed: stop to accept
	once  sync.Once     // closes it

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func (d *drainState) add(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[c] = struct{}{}
}

func (d *drainState) remove(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

// all returns the connections.
func (d *drainState) all() []*conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*conn, 0, len(d.conns))
	for c := range d.conns {
		list = append(list, c)
	}
	return list
}

// Drain lets another process go on with this server within a time. It serves on until no request is being carried out that
// takes time, so that clients with other requests need not wait for it. Then Serve returns ErrDrained, and this process has to
// end at once, without Close: all that outlives it belongs to the next one.
func (s *Server) Drain(within time.Duration) {
	waitUntil(within-stopReserve, func() bool { return s.working.Load() == 0 })
	s.draining.once.Do(func() { close(s.draining.leave) })
}

// leave ends all connections, after the listener has stopped to accept. Requests that have arrived are answered.
func (s *Server) leave() {
	waitUntil(joinTime, func() bool {
		for _, c := range s.draining.all() {
			if c.handshake.attachment.Load() == nil {
				return false
			}
		}
		return true
	})
	conns := s.draining.all()
	var told sync.WaitGroup
	told.Add(len(conns))
	for _, c := range conns {
		c.rpc.Leave(errReplaced, told.Done)
		c.endPolls()
	}
	done := make(chan struct{})
	go func() { // ends with this process, if not before
		told.Wait()
		close(done)
	}()
	begin := time.Now()
	waitUntil(answerTime, func() bool {
		select {
		case <-done:
			return true
		default:
			return s.working.Load() == 0 && time.Since(begin) > toldTime
		}
	})
	waitUntil(goneTime, func() bool { return len(s.draining.all()) == 0 })
}

// waitUntil waits until done returns true, but not longer than limit.
func waitUntil(limit time.Duration, done func() bool) {
	for end := time.Now().Add(limit); !done() && time.Now().Before(end); {
		time.Sleep(drainPoll)
	}
}
