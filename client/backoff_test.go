package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// A client tries a server on this machine often at first, and later at most 4 times per
// second.
func TestAttemptsOnLoopback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan struct{})
		served := make(chan struct{})
		var attempts []time.Time
		connected := false
		connect := func(context.Context) (net.Conn, error) {
			if connected {
				attempts = append(attempts, time.Now())
				return nil, errors.New("connection refused")
			}
			connected = true
			ours, theirs := net.Pipe()
			go func() {
				defer close(served)
				defer theirs.Close()
				p, err := scripted.NewPeer(theirs)
				if err != nil {
					t.Error(err)
					return
				}
				p.Welcome("S")
				<-lost
			}()
			return ours, nil
		}
		c, err := client.Dial(t.Context(), "ws://127.0.0.1:1", client.Options{Connect: connect})
		if err != nil {
			t.Fatal(err)
		}
		close(lost)
		time.Sleep(10 * time.Second)
		if s := c.Status(); s.State != client.Recovering || !strings.HasSuffix(s.Reason(), "connection refused") {
			t.Errorf("the status is %+v, its reason %q", s, s.Reason())
		}
		c.Close()
		<-served
		const burst = 10
		if len(attempts) < burst+10 {
			t.Fatalf("%d attempts in 10 s", len(attempts))
		}
		if took := attempts[burst-1].Sub(attempts[0]); took > time.Second {
			t.Errorf("the first %d attempts took %v", burst, took)
		}
		for i := burst; i < len(attempts); i++ {
			if pause := attempts[i].Sub(attempts[i-1]); pause < time.Second/4 || pause > time.Second/2 {
				t.Errorf("attempt %d was made %v after the one before", i+1, pause)
			}
		}
	})
}
