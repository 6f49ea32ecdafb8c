package client_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// A client whose session another client has resumed fails with that reason at once. It
// does not try to resume the session.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	srv := tethertest.StartServer(t, server.Config{})
	cable := tethertest.LayCable(t, srv.URL)
	first := dial(t, cable.URL(), client.Options{})
	p := start(t, first, sh("exec sleep 60"))
	cable.Freeze() // so that it does not answer the server's ping
	second := dial(t, srv.URL, client.Options{Resume: first.SessionID()})
	cable.Thaw()
	_, err := p.Wait(tethertest.Within(t))
	if !errors.Is(err, client.ErrTakenOver) || !errors.Is(err, client.ErrSessionLost) || err.Error() != "session was taken over by another client" {
		t.Errorf("the process of the first client failed with %v", err)
	}
	if n := cable.Links(); n != 1 {
		t.Errorf("the first client has made %d connections", n)
	}
	if err := second.Ping(tethertest.Within(t)); err != nil {
		t.Errorf("the second client: %v", err)
	}
	if err := second.End(tethertest.Within(t)); err != nil {
		t.Error(err)
	}
}

// The error of a session that could not be resumed in time has the reason of the last
// attempt.
func TestRecoveryTimeoutHasTheLastReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted.NewPipes(t)
		const limit = 20 * time.Second
		_, p, first := started(t, s, client.Options{RecoveryTimeout: limit, Connect: s.Connect})
		stop := make(chan struct{})
		first.Cut()
		wait := scripted.Play(t, func() {
			for {
				select {
				case again := <-s.Peers:
					again.Say(again.Expect("initialize").Refuse(-32010, "session S is already attached to another connection"))
					again.Cut()
				case <-stop:
					return
				}
			}
		})
		_, err := p.Wait(tethertest.Within(t))
		if !errors.Is(err, client.ErrRecoveryTimeout) || !errors.Is(err, client.ErrSessionLost) ||
			!strings.HasSuffix(err.Error(), "the server did not come back within 20s; last attempt: another client is connected to the session") {
			t.Errorf("the process failed with %v", err)
		}
		close(stop)
		wait()
	})
}

// The text of an ambiguous error names the operation whose outcome is unknown.
func TestTextOfAmbiguousErrors(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Welcome("S")
		first.Expect("process/start")
		first.Cut()
		again := s.Accept()
		again.Say(again.Expect("initialize").Refuse(-32600, "unknown session id S"))
	})
	c := dial(t, s.URL(), client.Options{})
	_, err := c.Start(tethertest.Within(t), client.Command{Argv: []string{"x"}, ID: "P"})
	wait()
	if !errors.Is(err, client.ErrAmbiguous) || !strings.HasPrefix(err.Error(), "it is not known whether the command was started: ") {
		t.Errorf("a start: %v", err)
	}

	s = scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	wait = scripted.Play(t, func() {
		first.Expect("process/signal")
		first.Cut()
	})
	err = p.Interrupt(tethertest.Within(t))
	wait()
	if !errors.Is(err, client.ErrAmbiguous) || !strings.HasPrefix(err.Error(), "it is not known whether the request was carried out: ") {
		t.Errorf("an interrupt: %v", err)
	}
}

// A command that is abandoned while there is no connection is ended on the next one.
func TestAbandonDuringAnOutage(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, line.URL(), client.Options{})
	p := start(t, c, sh("exec sleep 60"))
	connection := c.Connection()
	if connection.Err() != nil {
		t.Error("the connection has ended before the cut")
	}
	line.Cut()
	<-connection.Done()
	p.Abandon()
	line.Mend()
	if exit, err := p.Wait(tethertest.Within(t)); err != nil || exit.Code != 143 {
		t.Errorf("the command ended with %+v, %v", exit, err)
	}
	c.Close()
	if err := c.Connection().Err(); err == nil {
		t.Error("a closed client has a connection")
	}
}

// If a connection is lost in the middle of an attempt, for any reason, the client makes another
// attempt.
func TestBadRequestIDDuringAttempt(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Cut()
	wait := scripted.Play(t, func() {
		again := s.Accept()
		again.Welcome("S")
		again.Expect("process/read")
		again.Say(`{"id":-1,"method":"network/policyRequest","params":{}}`)
		again = s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(4, true, true, 1))
	})
	wantOutput(t, p, "1;")
	wait()
}

// A server may grant a time to live that does not fit into a duration.
func TestTTLBeyondDuration(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	hello := `{"sessionId":"S","tether":{"version":"1","publicId":"p","ttlMs":18446744073709551615,"features":[]}}`
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Greet(hello)
		first.Cut()
		again := s.Accept()
		again.Greet(hello)
		again.Begin()
	})
	again, onState := connected(2)
	c := dial(t, s.URL(), client.Options{OnState: onState})
	if c.TTL() <= 0 {
		t.Fatalf("TTL %v", c.TTL())
	}
	<-again
	start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	wait()
}
