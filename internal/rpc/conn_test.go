package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"

	"github.com/tetherexec/tether/wire"
)

func TestRequestAndAnswer(t *testing.T) {
	a, b := tcpPair(t)
	serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) {
		switch r.Method {
		case "fail":
			r.Fail(wire.Errorf(-7, "no"))
		case "impossible":
			r.Reply(func() {})
		default:
			r.Reply(r.Params)
		}
	}})
	client := newPeer(t, b)
	for _, c := range []struct{ send, want string }{
		{`{"id":1,"method":"m","params":{"x":[1]}}`, `{"id":1,"result":{"x":[1]}}`},
		{`{"id":"s","method":"m"}`, `{"id":"s","result":null}`},
		{`{"id":2,"method":"fail"}`, `{"error":{"code":-7,"message":"no"},"id":2}`},
		{`{"id":3,"method":"impossible"}`, `{"error":{"code":-32603,"message":"internal error"},"id":3}`},
	} {
		client.send(c.send)
		if got, _ := client.message(); string(got) != c.want {
			t.Errorf("%s is answered with %s", c.send, got)
		}
	}
}

func TestMalformedIsAnsweredAndSurvived(t *testing.T) {
	a, b := tcpPair(t)
	serve(t, NewWebSocket(a, nil), echo)
	client := newPeer(t, b)
	for _, bad := range []string{"", "x", "[]", "{}", `{"id":1.5,"method":"m"}`, `{"id":1,"id":1}`} {
		client.send(bad)
		m := client.next()
		if n, ok := m.ID.Int(); !ok || n != -1 || m.Err == nil || m.Err.Code != wire.CodeInvalidRequest || !strings.HasPrefix(m.Err.Message, "no message: ") {
			t.Errorf("%q is answered with %+v", bad, m)
		}
	}
	client.send(`{"id":9,"method":"m","params":"alive"}`)
	if m := client.next(); string(m.Result) != `"alive"` {
		t.Errorf("afterwards: %+v", m)
	}
}

func TestNotificationsAreHandledInOrder(t *testing.T) {
	a, b := tcpPair(t)
	var seen []string
	conn := newConn(NewWebSocket(a, nil), handlerFuncs{
		notification: func(method string, params []byte) error {
			seen = append(seen, method+string(params))
			if method == "last" {
				return violation(ClosePolicy, "enough")
			}
			return nil
		},
		request: func(r *Request) { seen = append(seen, r.Method); r.Reply(nil) },
	})
	conn.timers.linger = testTimeout // bytes that the peer sends after the end must not cause a reset
	c, client := run(t, conn), newPeer(t, b)
	for _, text := range []string{`{"method":"a","params":1}`, `{"id":1,"method":"b"}`, `{"method":"last"}`, `{"method":"never"}`} {
		client.send(text)
	}
	if code, reason := client.goodbye(); code != ClosePolicy || reason != "enough" {
		t.Errorf("close frame %d %q", code, reason)
	}
	b.Close()
	c.wait(t)
	if got := strings.Join(seen, " "); got != "a1 b last" {
		t.Errorf("handled %q", got)
	}
}

func TestCall(t *testing.T) {
	a, b := tcpPair(t)
	c := serve(t, NewWebSocket(a, nil), echo)
	client := newPeer(t, b)
	var calls sync.WaitGroup
	defer calls.Wait()
	calls.Go(func() { // the client
		for want := int64(1); want <= 3; want++ {
			m := client.next()
			if id, _ := m.ID.Int(); id != want || m.Method != "ask" {
				t.Errorf("request %+v, want id %d", m, want)
			}
			switch want {
			case 1:
				client.send(`{"id":1,"result":{"yes":true}}`)
			case 2:
				client.send(`{"id":2,"error":{"code":-1,"message":"refused"}}`)
			case 3:
				client.send(`{"id":1,"result":"late"}`) // answered before: ignored
				client.send(`{"id":3,"result":3}`)
			}
		}
	})
	ctx := t.Context()
	if got, err := c.Call(ctx, "ask", map[string]int{"n": 1}); err != nil || string(got) != `{"yes":true}` {
		t.Errorf("got %s, %v", got, err)
	}
	_, err := c.Call(ctx, "ask", nil)
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != -1 || e.Message != "refused" {
		t.Errorf("got %v", err)
	}
	if got, err := c.Call(ctx, "ask", nil); err != nil || string(got) != "3" {
		t.Errorf("got %s, %v", got, err)
	}
	calls.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("too late"))
	if _, err := c.Call(ctx, "ask", nil); err == nil || err.Error() != "too late" {
		t.Errorf("got %v", err)
	}
	if len(c.calls.waiting) != 0 {
		t.Errorf("%d calls are remembered", len(c.calls.waiting))
	}
}

func TestUnknownResponseEnds(t *testing.T) {
	for _, text := range []string{`{"id":1,"result":1}`, `{"id":0,"result":1}`, `{"id":"1","result":1}`, `{"id":5,"error":{"code":1,"message":""}}`} {
		a, b := tcpPair(t)
		c := serve(t, NewWebSocket(a, nil), echo)
		client := newPeer(t, b)
		client.send(text)
		if code, _ := client.goodbye(); code != ClosePolicy {
			t.Errorf("%s: close frame %d", text, code)
		}
		b.Close()
		c.wait(t)
	}
}

func TestCallEndsWithTheConnection(t *testing.T) {
	a, b := tcpPair(t)
	c := serve(t, NewWebSocket(a, nil), echo)
	client := newPeer(t, b)
	got := make(chan error, 1)
	go func() {
		_, err := c.Call(context.Background(), "ask", nil)
		got <- err
	}()
	client.next()
	b.Close()
	if err := <-got; err == nil {
		t.Error("a call without an answer succeeds")
	}
	c.wait(t)
	if _, err := c.Call(context.Background(), "ask", nil); err == nil {
		t.Error("a call over nothing succeeds")
	}
	if err := c.Notify("tell", nil); err == nil {
		t.Error("a notification over nothing succeeds")
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	const count = 10_000
	a, b := tcpPair(t)
	serve(t, NewWebSocket(a, nil), echo)
	client := newPeer(t, b)
	var sender sync.WaitGroup
	defer sender.Wait()
	sender.Go(func() {
		for i := range count {
			if err := client.write(frames.Text(fmt.Appendf(nil, `{"id":%d,"method":"m","params":%d}`, i, i))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range count {
		m := client.next()
		if id, _ := m.ID.Int(); id != int64(i) || string(m.Result) != fmt.Sprint(i) {
			t.Fatalf("answer %d is %+v", i, m)
		}
	}
}

func TestPingIsAnsweredWhileRequestsWait(t *testing.T) {
	a, b := tcpPair(t)
	serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(*Request) {}})
	client := newPeer(t, b)
	client.send(`{"id":1,"method":"never"}`)
	for _, payload := range []string{"p", "", strings.Repeat("x", 125)} {
		if err := client.write(frames.Ping([]byte(payload))); err != nil {
			t.Fatal(err)
		}
		f, err := client.frame()
		if err != nil || f.Op != frames.OpPong || string(f.Payload) != payload {
			t.Fatalf("ping %q is answered with %+v, %v", payload, f, err)
		}
	}
}

func TestQuietPeerIsPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		serve(t, NewWebSocket(a, nil), echo)
		client := newPeer(t, b)
		start := time.Now()
		for i := range 3 {
			f, err := client.frame()
			if err != nil || f.Op != frames.OpPing {
				t.Fatalf("got %+v, %v", f, err)
			}
			if got, want := time.Since(start), time.Duration(i+1)*pingInterval; got != want {
				t.Errorf("ping after %v, want %v", got, want)
			}
		}
	})
}

// answerPings reads for the peer and answers pings until the connection ends.
func answerPings(client *peer) {
	for {
		f, err := client.frame()
		if err != nil {
			return
		}
		if f.Op == frames.OpPing && client.write(frames.Pong(f.Payload)) != nil {
			return
		}
	}
}

func TestAlive(t *testing.T) {
	alive := func(t *testing.T, c *served) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		return c.Alive(ctx)
	}
	t.Run("answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipePair(t)
			c := serve(t, NewWebSocket(a, nil), echo)
			go answerPings(newPeer(t, b))
			time.Sleep(time.Minute + time.Second) // on the test's own clock
			if !alive(t, c) {
				t.Error("a peer that answers is not alive")
			}
		})
	})
	t.Run("answers while this program stands still", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipePair(t)
			c := serve(t, NewWebSocket(a, nil), echo)
			go answerPings(newPeer(t, b))
			time.Sleep(time.Second)                                      // on the test's own clock
			ctx, cancel := context.WithDeadline(t.Context(), time.Now()) // as after a pause
			defer cancel()
			if !c.Alive(ctx) {
				t.Error("the answer of the peer was not looked for")
			}
		})
	})
	t.Run("silent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipePair(t)
			c := serve(t, NewWebSocket(a, nil), echo)
			go io.Copy(io.Discard, b)
			start := time.Now()
			if alive(t, c) || time.Since(start) != 500*time.Millisecond {
				t.Errorf("a peer that does not answer is alive after %v", time.Since(start))
			}
			time.Sleep(suspectAfter)
			start = time.Now()
			if alive(t, c) || time.Since(start) != 0 {
				t.Errorf("Alive took %v for a peer that was presumed gone", time.Since(start))
			}
		})
	})
	t.Run("writer stuck", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipePair(t)
			c := serve(t, NewWebSocket(a, nil), echo)
			newPeer(t, b).send(`{"id":1,"method":"m"}`)
			synctest.Wait()
			if alive(t, c) {
				t.Error("a peer that takes nothing is alive")
			}
		})
	})
	t.Run("ended", func(t *testing.T) {
		a, _ := tcpPair(t)
		c := serve(t, NewWebSocket(a, nil), echo)
		c.Close(io.ErrClosedPipe)
		if c.Alive(context.Background()) {
			t.Error("an ended connection is alive")
		}
	})
}

func TestContextEndsTheConnection(t *testing.T) {
	a, b := tcpPair(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	c := run(t, New(ctx, NewWebSocket(a, nil), Config{Handler: echo}))
	cancel(&CloseError{Code: CloseGoingAway, Reason: "shutting down"})
	client := newPeer(t, b)
	if code, reason := client.goodbye(); code != CloseGoingAway || reason != "shutting down" {
		t.Errorf("close frame %d %q", code, reason)
	}
	b.Close()
	if why := c.wait(t); why.Error() != "shutting down (close code 1001)" || context.Cause(c.Context()) != why {
		t.Errorf("ended with %v", why)
	}
}

// A connection ends soon, however it ends, while the peer takes nothing.
func TestCloseWhileBlocked(t *testing.T) {
	for name, c := range map[string]struct {
		why  error
		took time.Duration
	}{
		"told":   {violation(ClosePolicy, "why"), closeGrace},
		"at end": {io.EOF, closeGrace},
		"broken": {net.ErrClosed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pipePair(t)
				s := serve(t, NewWebSocket(a, nil), echo)
				client := newPeer(t, b)
				client.send(`{"id":1,"method":"m"}`)
				client.send(`{"id":2,"method":"m"}`)
				synctest.Wait()
				start := time.Now()
				s.Close(c.why)
				if why := <-s.ended; s.why != c.why {
					t.Errorf("ended with %v: %v", s.why, why)
				}
				if got := time.Since(start); got != c.took {
					t.Errorf("it took %v, want %v", got, c.took)
				}
			})
		})
	}
}

// A dismissed peer gets the answers that it waits for, then the reason, and nothing
// else; it does not wait for long.
func TestDismissAnswersFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for late, want := range map[time.Duration][]string{
			0:                        {"1", "2"},
			answerGrace - 1:          {"1", "2"},
			answerGrace + 1:          {"1"},
			closeGrace + answerGrace: {"1"},
		} {
			a, b := pipePair(t)
			requests := make(chan *Request, 2)
			c := serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) { requests <- r }})
			client := newPeer(t, b)
			client.send(`{"id":1,"method":"m"}`)
			client.send(`{"id":2,"method":"m"}`)
			first, second := <-requests, <-requests
			c.Dismiss(violation(ClosePolicy, "why"))
			start := time.Now()
			first.Reply(nil)
			c.NotifyIfRoom("n", nil) // must not arrive
			timer := time.AfterFunc(late, func() { second.Reply(nil) })
			var got []string
			for range want {
				got = append(got, string(client.next().ID.AppendJSON(nil)))
			}
			if code, reason := client.goodbye(); code != ClosePolicy || reason != "why" || !slices.Equal(got, want) {
				t.Errorf("an answer after %v: the peer got %q, then close frame %d %q", late, got, code, reason)
			}
			if took := time.Since(start); took != min(late, answerGrace) {
				t.Errorf("an answer after %v: goodbye came after %v", late, took)
			}
			b.Close()
			c.wait(t)
			timer.Stop()
		}
	})
}

// A server that is replaced answers what it has read, however long that takes, before it says so. It reads nothing more, and
// requests in progress are not disturbed.
func TestLeaveAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		requests := make(chan *Request, 3)
		c := serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) { requests <- r }})
		client := newPeer(t, b)
		client.send(`{"id":1,"method":"m"}`)
		client.send(`{"id":2,"method":"m"}`)
		first, second := <-requests, <-requests
		told := false
		c.Leave(violation(CloseRestart, "why"), func() { told = true })
		client.send(`{"id":3,"method":"m"}`)
		first.Reply(nil)
		synctest.Wait()
		time.Sleep(closeGrace + answerGrace)
		if told || c.Context().Err() != nil || len(requests) > 0 {
			t.Errorf("told: %v, context: %v, further requests: %d", told, c.Context().Err(), len(requests))
		}
		second.Reply(nil)
		for _, want := range []string{"1", "2"} {
			if got := string(client.next().ID.AppendJSON(nil)); got != want {
				t.Errorf("answer %s instead of %s", got, want)
			}
		}
		if code, reason := client.goodbye(); code != CloseRestart || reason != "why" {
			t.Errorf("close frame %d %q", code, reason)
		}
		b.Close()
		c.wait(t)
		if !told || len(requests) > 0 {
			t.Errorf("told: %v, further requests: %d", told, len(requests))
		}
		c.Leave(violation(CloseRestart, "again"), func() { told = false })
		if told {
			t.Error("a connection that has ended is waited for")
		}
	})
}

// A peer that was sent a close frame can still send for a while, and is not reset
// before it has read why.
func TestLinger(t *testing.T) {
	for name, end := range map[string]func(*served, *peer){
		"their fault": func(_ *served, client *peer) { client.send(`{"id":1,"result":"unasked"}`) },
		"our will":    func(c *served, _ *peer) { c.Close(violation(ClosePolicy, "why")) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := tcpPair(t)
			conn := newConn(NewWebSocket(a, nil), echo)
			conn.timers.linger = testTimeout
			c, client := run(t, conn), newPeer(t, b)
			end(c, client)
			if code, _ := client.goodbye(); code != ClosePolicy {
				t.Errorf("close frame %d", code)
			}
			if _, err := b.Write(make([]byte, 16<<20)); err != nil { // more than the sockets hold
				t.Error(err)
			}
			b.Close()
			c.wait(t)
		})
	}
}

// A peer that does not leave after the close frame is disconnected.
func TestPeerThatDoesNotLeaveIsDisconnected(t *testing.T) {
	a, b := tcpPair(t)
	c := serve(t, NewWebSocket(a, nil), echo)
	c.Close(violation(ClosePolicy, "why"))
	c.wait(t)
	if code, _ := newPeer(t, b).goodbye(); code != ClosePolicy {
		t.Errorf("close frame %d", code)
	}
}
