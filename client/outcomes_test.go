package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// These tests are about the outcome of operations: the server's answer, or an error that says
// that the outcome is unknown.

// within fails the test if something does not end.
func within[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(longWait):
		t.Fatal(what + " does not end")
	}
	return v
}

// The refusals of a real server are the errors of this package.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	p := start(t, c, sh("exec sleep 1000"))
	ctx, mine, missing := tethertest.Within(t), c.Remote(c.PublicID(), p.ID()), c.Remote(c.PublicID(), "missing")
	for name, err := range map[string]error{"CloseStdin": p.CloseStdin(ctx), "Remote.CloseStdin": mine.CloseStdin(ctx)} {
		if !errors.Is(err, client.ErrStdinClosed) || errors.Is(err, client.ErrUnknownProcess) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"CloseStdin": missing.CloseStdin(ctx), "Resize": missing.Resize(ctx, 1, 1),
		"Observe": second(missing.Observe(ctx, 0)), "State": second(missing.State(ctx)), "Adopt": second(c.Adopt(ctx, "missing")),
	} {
		if !errors.Is(err, client.ErrUnknownProcess) || errors.Is(err, client.ErrStdinClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cmd := sh(`trap "" TERM; echo; while :; do sleep 1000; done`)
	cmd.Stdin = true
	deaf := start(t, c, cmd)
	if _, err := io.ReadFull(deaf.Output(), make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := deaf.Terminate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := deaf.Write(ctx, []byte("x")); !errors.Is(err, client.ErrStdinClosed) {
		t.Errorf("Write after Terminate: %v", err)
	}
}

// If the client processes the answer to an observe only after the connection is lost, the
// observation continues on the next connection.
func TestObserveAnsweredLate(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Greet(scripted.Hello(`"observe"`))
		// It takes long to read that.
		first.Say(first.Expect("tether/process/observe").Answer(fmt.Sprintf(`{"observeId":1,"nextSeq":1,"more":"%s"}`, strings.Repeat(`\n`, 2<<20))))
		first.Cut()
		again := s.Accept()
		again.Greet(scripted.Hello(`"observe"`))
		again.Serve("tether/process/observe", `{"observeId":1,"nextSeq":1}`)
		again.Say(`{"method":"tether/process/closed","params":{"observeId":1,"seq":1,"timeMs":1}}`)
	})
	c := dial(t, s.URL(), client.Options{})
	o, err := c.Observe(tethertest.Within(t), "p", "P", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	ctx := tethertest.Within(t)
	if e, err := o.Next(ctx); e.Kind != client.Closed || err != nil {
		t.Errorf("Next: %+v, %v", e, err)
	}
	wait()
}

// Many events before the answer to an observe are not lost.
func TestObserveMuchBeforeAnswer(t *testing.T) {
	t.Parallel()
	const most = 1024 // events that may wait for an observer
	s := scripted.NewServer(t)
	observed := func(id, seq int) string {
		return fmt.Sprintf(`{"method":"tether/process/output","params":{"observeId":%d,"seq":%d,"stream":"stdout","chunk":%s,"timeMs":1}}`, id, seq, scripted.Chunk(seq))
	}
	wait := scripted.Play(t, func() {
		p := s.Accept()
		p.Greet(scripted.Hello(`"observe"`))
		m := p.Expect("tether/process/observe")
		for seq := 2; seq <= most+1; seq++ { // with the gap before them there is one too many
			p.Say(observed(1, seq))
		}
		p.Say(m.Answer(`{"observeId":1,"nextSeq":1}`))
		for {
			switch m := p.Hear(); m.Method {
			case "tether/process/unobserve":
				p.Say(m.Answer(`{}`))
			case "tether/process/observe":
				if want := fmt.Sprintf(`"afterSeq":%d`, most); !strings.Contains(string(m.Params), want) {
					panic(string(m.Params))
				}
				p.Say(m.Answer(`{"observeId":2,"nextSeq":1}`), observed(2, most+1), observed(2, most+2))
				return
			}
		}
	})
	c := dial(t, s.URL(), client.Options{})
	o, err := c.Observe(tethertest.Within(t), "p", "P", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	ctx := tethertest.Within(t)
	for seq := uint64(1); seq <= most+2; seq++ {
		e, err := o.Next(ctx)
		if err != nil || e.Seq != seq || e.Kind == client.Gap && seq > 1 {
			t.Fatalf("event %d: %+v, %v", seq, e.Event, err)
		}
	}
	wait()
}

// A process that was given up is ended, even if the connection is lost once more.
func TestGivenUpProcessIsTerminated(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Cut()
		again := s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(4, true, true, 1, 2, 3)) // a contradictory answer
		again.Expect("process/terminate")
		again.Cut()
		again = s.Accept()
		again.Welcome("S")
		again.Serve("process/terminate", `{"running":true}`)
	})
	wantFailed(t, p, "conflicts with recovered output")
	wait()
}

// If the answer to a start was lost and too many calls wait for answers, the question about the
// process waits for a slot.
func TestAmbiguousStartWaitsForASlot(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	c, p, first := started(t, s, client.Options{})
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	var calls sync.WaitGroup
	occupy := func() {
		calls.Go(func() {
			for {
				if _, err := p.Read(ctx, client.ReadOptions{Wait: longWait}); !errors.Is(err, client.ErrTooManyCalls) {
					return
				}
				runtime.Gosched()
			}
		})
	}
	wait := scripted.Play(t, func() {
		first.Expect("process/start")
		first.Cut()
		again := s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(1, false, false))
		asked := again.Expect("process/read") // the question about the process
		const most = 1024
		var reads []scripted.Message
		for range most - 1 {
			occupy()
			reads = append(reads, again.Expect("process/read"))
		}
		occupy()
		for strings.Contains(string(asked.Params), `"Q"`) { // until another call has its slot
			again.Say(asked.Refuse(-32600, "process id Q is starting"))
			asked = again.Expect("process/read")
		}
		again.Conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if m, ok := again.MayHear(); ok {
			panic(fmt.Sprintf("heard %s %s", m.Method, m.Params))
		}
		again.Conn.SetReadDeadline(time.Now().Add(longWait))
		again.Say(reads[0].Answer(scripted.ReadAnswer(1, false, false)))
		asked = again.Expect("process/read")
		if !strings.Contains(string(asked.Params), `"Q"`) {
			panic(string(asked.Params))
		}
		again.Say(asked.Answer(scripted.ReadAnswer(1, false, false)))
	})
	_, err := c.Start(tethertest.Within(t), client.Command{Argv: []string{"x"}, ID: "Q"})
	if err != nil {
		t.Errorf("Start: %v", err)
	}
	wait()
	cancel()
	calls.Wait()
}

// If the client is closed, or its session lost, while a command is being started, the error of
// Start is ErrAmbiguous.
func TestStartWhileTheClientEnds(t *testing.T) {
	t.Parallel()
	for range 10 {
		s := scripted.NewServer(t)
		c := make(chan *client.Client, 1)
		wait := scripted.Play(t, func() {
			first := s.Accept()
			first.Welcome("S")
			first.Expect("process/start")
			(<-c).Close()
		})
		cl := dial(t, s.URL(), client.Options{})
		c <- cl
		_, err := cl.Start(tethertest.Within(t), client.Command{Argv: []string{"x"}, ID: "P"})
		if !errors.Is(err, client.ErrAmbiguous) || !errors.Is(err, client.ErrClosed) {
			t.Fatalf("Start: %v", err)
		}
		wait()
	}
}

// late returns a process with a reader whose first events have left the log of the client.
func late(t *testing.T, s *scripted.Server) (*client.Process, *client.Subscription, *scripted.Peer) {
	t.Helper()
	_, p, first := started(t, s, client.Options{})
	const many = 300
	for seq := 1; seq <= many; seq++ {
		first.Say(scripted.Events("P", fmt.Sprintf("o%d", seq))...)
	}
	tethertest.Eventually(t, func() error {
		if n := p.LastSeq(); n < many {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	return p, p.Subscribe(), first
}

// If the session is lost, a late reader gets that error, not a gap.
func TestLateReaderLosesTheSession(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, sub, first := late(t, s)
	wait := scripted.Play(t, func() {
		first.Expect("process/read")
		first.Cut()
		again := s.Accept()
		again.Say(again.Expect("initialize").Refuse(-32600, "unknown session id S"))
	})
	if e, err := sub.Next(tethertest.Within(t)); !errors.Is(err, client.ErrSessionLost) {
		t.Errorf("Next: %+v, %v", e, err)
	}
	wait()
}

// Events that the server does not have any more are a gap.
func TestLateReaderOfRemovedProcess(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, sub, first := late(t, s)
	wait := scripted.Play(t, func() { first.Say(first.Expect("process/read").Refuse(-32600, "unknown process id P")) })
	if e, err := sub.Next(tethertest.Within(t)); e.Kind != client.Gap || e.First != 1 || e.Seq != 44 || err != nil {
		t.Errorf("Next: %+v, %v", e, err)
	}
	wait()
}

// Close ends the wait of a late reader.
func TestCloseWakesLateReader(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, sub, first := late(t, s)
	done := make(chan error, 1)
	go func() {
		_, err := sub.Next(tethertest.Within(t))
		done <- err
	}()
	scripted.Play(t, func() { first.Expect("process/read") })()
	sub.Close()
	if err := within(t, "the reader", done); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("Next: %v", err)
	}
}

// If the Lazy is closed, a Get that waits for a session returns ErrClosed.
func TestLazyClosedDuringAttempt(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	l := newLazy(t, s.URL(), client.Options{})
	wait := scripted.Play(t, func() {
		s.Accept().Expect("initialize")
		l.Close()
	})
	if _, err := l.Get(tethertest.Within(t)); !errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v", err)
	}
	wait()
}

// Sizes of a terminal are limited to the range of the protocol, also for processes of other
// sessions.
func TestRemoteSize(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() {
		p := s.Accept()
		p.Greet(scripted.Hello(`"remoteControl"`))
		m := p.Expect("tether/process/resize")
		if !strings.Contains(string(m.Params), `"rows":65535`) || !strings.Contains(string(m.Params), `"cols":0`) {
			panic(string(m.Params))
		}
		p.Say(m.Answer(`{}`))
	})
	if err := dial(t, s.URL(), client.Options{}).Remote("p", "P").Resize(tethertest.Within(t), 65536+24, -1); err != nil {
		t.Error(err)
	}
	wait()
}

// Close ends the wait of an observer, even without a connection.
func TestCloseWakesObserver(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	var first *scripted.Peer
	wait := scripted.Play(t, func() {
		first = s.Accept()
		first.Greet(scripted.Hello(`"observe"`))
		first.Serve("tether/process/observe", `{"observeId":1,"nextSeq":1}`)
	})
	lost := make(chan struct{})
	c := dial(t, s.URL(), client.Options{OnState: func(s client.Status) {
		if s.State == client.Recovering && s.Attempt == 0 {
			close(lost)
		}
	}})
	o, err := c.Observe(tethertest.Within(t), "p", "P", 0)
	if err != nil {
		t.Fatal(err)
	}
	wait()
	done := make(chan error, 1)
	go func() {
		_, err := o.Next(tethertest.Within(t))
		done <- err
	}()
	first.Cut()
	<-lost
	scripted.Play(t, func() { s.Accept().Expect("initialize") })() // without an answer
	o.Close()
	if err := within(t, "the observer", done); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("Next: %v", err)
	}
}

// After the exit, Wait and Result return it even if their context has ended.
func TestWaitAfterExitWithEndedContext(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "x1 c2")...)
	<-p.Done()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 {
		if _, err := p.Wait(ended); err != nil {
			t.Fatalf("wait: %v", err)
		}
		if _, err := p.Result(ended); err != nil {
			t.Fatalf("result: %v", err)
		}
	}
}

// The failure of a transport command is in the error, as when ssh refuses the login.
func TestCommandFails(t *testing.T) {
	t.Parallel()
	_, err := client.DialCommand(tethertest.Within(t), client.TransportCommand{Argv: []string{"/bin/sh", "-c", "echo first >&2; echo 'no entry' >&2; echo >&2; read x; exit 255"}}, client.Options{})
	if err == nil || err.Error() != "cannot connect to `/bin/sh`: `/bin/sh` has ended (exit status 255): no entry" {
		t.Errorf("the error is %v", err)
	}
}
