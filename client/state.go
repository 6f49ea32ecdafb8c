package client

import (
	"context"
	"sync"

	"github.com/tetherexec/tether/client/internal/inbox"
)

// A lifecycle has the state of a client and its newest connection. Client.run owns it:
// only that goroutine changes the state.
type lifecycle struct {
	unreported *inbox.Inbox[*Status] // waits for OnState; nil: there is no OnState

	mu      sync.Mutex
	status  Status
	link    *Link         // the newest connection; usable while Connected
	changed chan struct{} // closed with the next change of the state
}

// now returns the state and the newest connection.
func (s *lifecycle) now() (Status, *Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.link
}

// connected makes a connection the current one.
func (s *lifecycle) connected(l *Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	s.setLocked(Status{State: Connected, Connection: s.status.Connection + 1})
}

// disconnected changes the state to Recovering or Failed.
func (s *lifecycle) disconnected(state State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(Status{State: state, Connection: s.status.Connection, Err: err})
}

// attempted reports a failed attempt to connect to OnState.
func (s *lifecycle) attempted(state State, failed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLocked(Status{State: state, Connection: s.status.Connection, Attempt: failed, Err: err})
}

// setLocked changes the state and wakes the calls that wait for a connection.
func (s *lifecycle) setLocked(status Status) {
	close(s.changed)
	s.changed = make(chan struct{})
	s.reportLocked(status)
}

// reportLocked queues a status for OnState. If OnState is slow, the oldest one that waits is
// dropped; Failed is the last one, so it is never dropped.
func (s *lifecycle) reportLocked(status Status) {
	s.status = status
	if s.unreported != nil {
		s.unreported.PutNewest(&status)
	}
}

// ready returns the connection, once there is one.
func (s *lifecycle) ready(ctx context.Context) (*Link, error) {
	for {
		s.mu.Lock()
		l, status, changed := s.link, s.status, s.changed
		s.mu.Unlock()
		switch {
		case status.State == Failed:
			return nil, status.Err
		case status.State == Connected && !l.dead():
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
