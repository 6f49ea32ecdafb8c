package client_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// states collects the calls of OnState.
type states struct {
	mu  sync.Mutex
	all []client.Status
}

func (s *states) record(status client.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, status)
}

// recorded returns the states and the error of the last one.
func (s *states) recorded() (all []client.State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, status := range s.all {
		all, err = append(all, status.State), status.Err
	}
	return all, err
}

// When Close returns, OnState was called with Failed, once and last.
func TestCloseReportsFailed(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	const rounds, atATime = 10, 6
	for range rounds {
		var recorder [atATime]states
		var clients [atATime]*client.Client
		for i := range clients {
			clients[i] = dial(t, s.URL, client.Options{OnState: recorder[i].record})
		}
		var closing sync.WaitGroup
		for i, c := range clients {
			closing.Go(func() {
				c.Close()
				got, err := recorder[i].recorded()
				if want := []client.State{client.Connected, client.Failed}; !slices.Equal(got, want) || !errors.Is(err, client.ErrClosed) {
					t.Errorf("OnState got %v, the last with %v; want %v with ErrClosed", got, err, want)
				}
			})
		}
		closing.Wait()
	}
}

// A lost session is reported once, and Close does not report it again.
func TestLostSessionReportsFailedOnce(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	var recorder states
	c, p, first := started(t, s, client.Options{OnState: recorder.record})
	wait := scripted.Play(t, func() {
		first.Cut()
		again := s.Accept()
		again.Say(again.Expect("initialize").Refuse(-32600, "unknown session id S"))
	})
	wantFailed(t, p, forgotten)
	wait()
	c.Close()
	c.Close()
	got, err := recorder.recorded()
	if want := []client.State{client.Connected, client.Recovering, client.Failed}; !slices.Equal(got, want) || !errors.Is(err, client.ErrSessionLost) {
		t.Errorf("OnState got %v, the last with %v; want %v with ErrSessionLost", got, err, want)
	}
}
