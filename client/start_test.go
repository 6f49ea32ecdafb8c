package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// The answer to a start arrives, and the connection is lost and replaced before the goroutine
// of the start processes the answer.
func TestStartAnsweredLate(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Welcome("S")
		m := first.Expect("process/start")
		// It takes long to read that.
		first.Say(m.Answer(fmt.Sprintf(`{"processId":"P","sandboxType":"%s"}`, strings.Repeat(`\n`, 2<<20))))
		first.Conn.Close()
		again := s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(4, true, true, 1))
	})
	c := dial(t, s.URL(), client.Options{})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	if _, err := p.Wait(tethertest.Within(t)); err != nil {
		t.Error(err)
	}
	wait()
}

// A start that is given up before it was sent is not sent.
func TestCancelledBeforeSent(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	c, p, first := started(t, s, client.Options{})
	first.Cut()
	var again *scripted.Peer
	var hello scripted.Message
	wait := scripted.Play(t, func() {
		again = s.Accept()
		hello = again.Expect("initialize")
	})
	wait()
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	cancel()
	if _, err := c.Start(ctx, client.Command{Argv: []string{"x"}, ID: "Q"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	ctx, cancel = context.WithTimeout(tethertest.Within(t), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Start(ctx, client.Command{Argv: []string{"x"}, ID: "R"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start: %v", err)
	}
	wait = scripted.Play(t, func() {
		again.Say(hello.Answer(`{"sessionId":"S"}`))
		again.Expect("initialized")
		again.Serve("process/read", scripted.ReadAnswer(1, false, false))
		again.Serve("process/terminate", `{"running":true}`)
	})
	p.Terminate(tethertest.Within(t))
	wait()
}

func TestAdoptGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	c, _, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Expect("process/read")
	})
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	go func() { wait(); cancel() }()
	done := make(chan error, 1)
	go func() {
		_, err := c.Adopt(ctx, "OTHER")
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(longWait):
		t.Error("Adopt does not return")
	}
}

// When the session is lost, Adopt returns.
func TestAdoptWhenTheSessionIsLost(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	c, _, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Expect("process/read")
		first.Cut()
		again := s.Accept()
		again.Say(again.Expect("initialize").Refuse(-32600, "unknown session id S"))
	})
	done := make(chan error, 1)
	go func() {
		_, err := c.Adopt(tethertest.Within(t), "OTHER")
		done <- err
	}()
	wait()
	select {
	case err := <-done:
		if !errors.Is(err, client.ErrSessionLost) {
			t.Error(err)
		}
	case <-time.After(longWait):
		t.Fatal("Adopt does not return")
	}
}

// The last acknowledgement of a process is not sent again for a later process with the same id.
func TestReusedIDAfterAcknowledgedEnd(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	begun := make(chan struct{})
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Greet(acksHello)
		first.Begin()
		first.Say(scripted.Events("P", "x1 c2")...)
		if m := first.Hear(); m.Method != "tether/ack" {
			panic(m.Method)
		}
		first.Begin()
		first.Say(scripted.Events("P", "o1 o2 o3")...)
		<-begun
		first.Cut()
		again := s.Accept()
		again.Greet(acksHello)
		again.Say(again.Hear().Answer(scripted.ReadAnswer(4, false, false)))
		if m := again.Hear(); m.Method != "process/terminate" {
			panic(fmt.Sprintf("%s %s", m.Method, m.Params))
		} else {
			again.Say(m.Answer(`{"running":true}`))
		}
	})
	again, onState := connected(2)
	c := dial(t, s.URL(), client.Options{OnState: onState})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	if _, err := p.Wait(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	p = start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	close(begun)
	<-again
	p.Terminate(tethertest.Within(t))
	wait()
}

// The client refuses a request that is too large for the server, and does not send it again and
// again.
func TestTooLargeRequest(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	_, err := c.Start(tethertest.Within(t), client.Command{Argv: []string{"true"}, Env: map[string]string{"X": strings.Repeat("x", 65<<20)}})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start: %v", err)
	}
	if n := c.Status().Connection; n != 1 {
		t.Errorf("%d connections", n)
	}
}
