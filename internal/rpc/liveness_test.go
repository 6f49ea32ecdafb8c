package rpc

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"
)

// ping returns the payload of the next ping.
func (p *peer) ping() string {
	p.t.Helper()
	f, err := p.frame()
	if err != nil || f.Op != frames.OpPing {
		p.t.Fatalf("got %+v, %v instead of a ping", f, err)
	}
	return string(f.Payload)
}

// A server says in its pings for how long it has received nothing.
func TestServerPingsReportSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		busy, goOn := make(chan struct{}), make(chan struct{})
		serve(t, NewWebSocket(a, nil), handlerFuncs{notification: func(method string, _ []byte) error {
			if method == "work" {
				close(busy)
				<-goOn
			}
			return nil
		}})
		client := newPeer(t, b)
		for _, want := range []string{"unheard-ms=10000", "unheard-ms=20000"} {
			if got := client.ping(); got != want {
				t.Errorf("ping %q, want %q", got, want)
			}
		}
		time.Sleep(7 * time.Second) // on the test's own clock
		client.send(`{"method":"rest"}`)
		if got := client.ping(); got != "unheard-ms=3000" {
			t.Errorf("after a message: %q", got)
		}
		client.send(`{"method":"work"}`)
		<-busy
		if got := client.ping(); got != "unheard-ms=0" {
			t.Errorf("a server that does not read: %q", got)
		}
		close(goOn)
	})
}

// asClient runs the client's end of a connection; the peer is a server.
func asClient(t *testing.T, conn net.Conn) *served {
	return run(t, New(context.Background(), NewWebSocketClient(conn, nil), Config{Handler: echo, Client: true}))
}

// fromServer sends a frame as a server does.
func fromServer(t *testing.T, conn net.Conn, f frames.Frame) {
	t.Helper()
	if err := frames.Write(conn, f); err != nil {
		t.Fatal(err)
	}
}

func TestSignsOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		c := asClient(t, a)
		next := func() string {
			f, err := frames.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			return string(f.Payload)
		}
		first := c.Ping()
		payload := next()
		second := c.Ping()
		if newer := next(); payload == newer || second <= first {
			t.Errorf("pings %d %q and %d %q", first, payload, second, newer)
		}
		synctest.Wait()
		if s := c.Signs(); s.Pong >= first || s.Answers != 0 || s.Reports != 0 || !s.Reading {
			t.Errorf("before an answer: %+v", s)
		}
		fromServer(t, b, frames.Pong([]byte(payload)))
		fromServer(t, b, frames.Pong([]byte("other")))
		synctest.Wait()
		if s := c.Signs(); s.Pong < first || s.Pong >= second || s.Answers != 2 {
			t.Errorf("after the first pong: %+v", s)
		}
		before := c.Signs()
		const note = `{"method":"n"}`
		fromServer(t, b, frames.Text([]byte(note)))
		synctest.Wait()
		if s := c.Signs(); s.Messages-before.Messages != uint64(len(note)) || s.Received-before.Received != uint64(len(note))+2 || s.Answers != before.Answers {
			t.Errorf("after a notification: %+v, before %+v", s, before)
		}
		go frames.Read(b) // the pong
		fromServer(t, b, frames.Ping([]byte("unheard-ms=21500")))
		synctest.Wait()
		if s := c.Signs(); s.Reports != 1 || s.Unheard != 21500*time.Millisecond {
			t.Errorf("after a report: %+v", s)
		}
		for _, other := range []string{"", "unheard-ms=", "unheard-ms=x", "unheard-ms=99999999999999999999"} {
			go frames.Read(b) // the pong
			fromServer(t, b, frames.Ping([]byte(other)))
		}
		synctest.Wait()
		if s := c.Signs(); s.Reports != 1 {
			t.Errorf("after pings that report nothing: %+v", s)
		}
		// An answer arrives in pieces.
		before = c.Signs()
		answer := frames.Text([]byte(`{"id":99,"result":1}`)).Bytes()
		b.Write(answer[:7])
		synctest.Wait()
		if s := c.Signs(); s.Received-before.Received != 7 || s.Messages != before.Messages {
			t.Errorf("in the middle of an answer: %+v, before %+v", s, before)
		}
		b.Write(answer[7:])
		synctest.Wait()
		if s := c.Signs(); s.Answers != before.Answers+1 {
			t.Errorf("after an answer: %+v, before %+v", s, before)
		}
	})
}

func TestWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		c := asClient(t, a)
		go func() { // reads everything
			for {
				if _, err := frames.Read(b); err != nil {
					return
				}
			}
		}()
		if w := c.Waiting(nil); w.Calls != 0 {
			t.Errorf("at first: %+v", w)
		}
		began := time.Now()
		var calls []*Call
		for _, method := range []string{"one", "two", "three"} {
			call, err := c.Begin(t.Context(), method, make([]byte, 1000*len(calls)))
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, call)
			time.Sleep(time.Second) // on the test's own clock
		}
		if w := c.Waiting(nil); w.Calls != 3 || w.Method != "one" || !w.Oldest.Equal(began) || w.Largest < 2000 {
			t.Errorf("three calls: %+v", w)
		}
		if w := c.Waiting(calls[0]); w.Calls != 2 || w.Method != "two" || !w.Oldest.Equal(began.Add(time.Second)) {
			t.Errorf("without the first: %+v", w)
		}
		fromServer(t, b, frames.Text([]byte(`{"id":1,"result":1}`)))
		fromServer(t, b, frames.Text([]byte(`{"id":3,"result":1}`)))
		synctest.Wait()
		if w := c.Waiting(nil); w.Calls != 1 || w.Method != "two" || w.Largest > 2000 {
			t.Errorf("after two answers: %+v", w)
		}
	})
}

// A peer that takes nothing between two pings is slow, until it takes something.
func TestSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		c := serve(t, NewWebSocket(a, nil), echo)
		client := newPeer(t, b)
		time.Sleep(15 * time.Second) // the first ping waits for the peer
		if c.Slow() {
			t.Error("a peer that has kept one ping waiting for 5 s is slow")
		}
		time.Sleep(20 * time.Second)
		if !c.Slow() {
			t.Error("a peer that has kept a ping waiting for 25 s is not slow")
		}
		client.ping()
		synctest.Wait()
		if c.Slow() {
			t.Error("a peer that has taken everything is slow")
		}
	})
}
