package rpc

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"

	"github.com/tetherexec/tether/wire"
)

// nothingHeld checks that all room is free.
func nothingHeld(t testing.TB, m *Memory) {
	t.Helper()
	if !m.in.TryAcquire(m.inLimit) || !m.out.TryAcquire(m.outLimit) {
		t.Error("room was not given back")
		return
	}
	m.in.Release(m.inLimit)
	m.out.Release(m.outLimit)
	if len(m.arriving) > 0 {
		t.Errorf("%d messages are arriving", len(m.arriving))
	}
}

// sharing serves a connection that has memory in common with others.
func sharing(t testing.TB, m *Memory, stream Stream, h Handler) *served {
	return run(t, New(t.Context(), stream, Config{
		Handler: h, Log: slog.New(slog.DiscardHandler), Memory: m,
		Urgent: func(method string) bool { return method == "urgent" },
		Refusal: func(method string) *wire.Error {
			if method == "ordered" {
				return nil
			}
			return wire.Errorf(-5, "no room for %s", method)
		},
	}))
}

// raw sends bytes.
func (p *peer) raw(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// begun is a peer whose message is on its way.
type begun struct {
	*peer
	served *served
	sent   chan struct{} // closed when the first half has been taken
	rest   []byte
}

// begin connects a peer and sends the first half of a request.
func begin(t testing.TB, m *Memory, id, size int) *begun {
	a, b := pipePair(t)
	g := &begun{peer: newPeer(t, b), served: sharing(t, m, NewWebSocket(a, nil), echo), sent: make(chan struct{})}
	go func() { // ends with the pipe
		defer close(g.sent)
		text := fmt.Sprintf(`{"id":%d,"method":"m","params":"`, id)
		text += strings.Repeat("x", size-len(text)-2) + `"}`
		var frame bytes.Buffer
		frames.Write(&frame, frames.Text([]byte(text)).FromClient())
		g.rest = frame.Bytes()[size/2:]
		b.Write(frame.Bytes()[:size/2])
	}()
	return g
}

// taken reports whether the first half has been read.
func (g *begun) taken() bool {
	select {
	case <-g.sent:
		return true
	default:
		return false
	}
}

// Messages that arrive at the same time wait for one another when there is no room for
// all, and small requests do not wait.
func TestMessagesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		m := newMemory(2*size+size/2, MaxOutgoing)
		var messages []*begun
		for i := range 4 {
			messages = append(messages, begin(t, m, i, size))
			synctest.Wait()
		}
		for i, g := range messages {
			if g.taken() != (i < 2) {
				t.Errorf("half of message %d has been read: %v", i, g.taken())
			}
		}
		a, b := pipePair(t)
		bystander := newPeer(t, b)
		sharing(t, m, NewWebSocket(a, nil), echo)
		for i := range 100 {
			bystander.sendf(`{"id":%d,"method":"m","params":%d}`, i, i)
			if answer := bystander.next(); string(answer.Result) != fmt.Sprint(i) {
				t.Fatalf("a small request is answered with %s", answer.Result)
			}
		}
		for i, g := range messages {
			<-g.sent // the message before made room
			g.raw(g.rest)
			if answer := g.next(); len(answer.Result) < size/2 {
				t.Errorf("message %d is answered with %.100s, %v", i, answer.Result, answer.Err)
			}
		}
		endAll(t, m, messages)
	})
}

// endAll ends the connections and checks that all room is free.
func endAll(t *testing.T, m *Memory, messages []*begun) {
	t.Helper()
	for _, g := range messages {
		g.served.Close(io.ErrClosedPipe)
		<-g.served.ended
	}
	synctest.Wait()
	nothingHeld(t, m)
}

// A message that does not finish arriving makes room for one that waits; its sender gets an error
// when it finishes at last, and the connection goes on.
func TestStalledMessageIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		m := newMemory(size+size/2, MaxOutgoing)
		stalled := begin(t, m, 1, size)
		synctest.Wait()
		waiting := begin(t, m, 2, size)
		start := time.Now()
		<-waiting.sent
		if waited := time.Since(start); waited != roomTimeout {
			t.Errorf("waited for %v", waited)
		}
		waiting.raw(waiting.rest)
		if answer := waiting.next(); answer.Err != nil {
			t.Errorf("the message that waited: %v", answer.Err)
		}
		stalled.raw(stalled.rest)
		if answer := stalled.next(); answer.Err == nil || answer.Err.Message != "no room for m" || answer.ID != wire.IntID(1) {
			t.Errorf("the message that stalled: %s %v", answer.Result, answer.Err)
		}
		stalled.send(`{"id":3,"method":"m","params":"again"}`)
		if answer := stalled.next(); string(answer.Result) != `"again"` {
			t.Errorf("afterwards: %s %v", answer.Result, answer.Err)
		}
		endAll(t, m, []*begun{stalled, waiting})
	})
}

// Over TLS a message can be evicted in the middle of a record.
func TestStalledMessageIsEvictedOverTLS(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	const size = 1 << 20
	m := newMemory(size+size/2, MaxOutgoing)
	m.timeout = 10 * time.Millisecond
	a, b := tcpPair(t)
	c := sharing(t, m, NewWebSocket(tls.Server(a, &tls.Config{Certificates: certified.TLS.Certificates}), nil), echo)
	client := newPeer(t, tls.Client(b, &tls.Config{InsecureSkipVerify: true}))
	text := `{"id":1,"method":"m","params":"` + strings.Repeat("x", size) + `"}`
	var frame bytes.Buffer
	frames.Write(&frame, frames.Text([]byte(text)).FromClient())
	client.raw(frame.Next(size / 2))
	begun := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.arriving) == 1
	}
	for start := time.Now(); !begun(); time.Sleep(time.Millisecond) {
		if time.Since(start) > testTimeout {
			t.Fatal("the message does not arrive")
		}
	}
	waiting := arrival{memory: m, ctx: t.Context()}
	for err := errRefused; err != nil; { // until the other message has been arriving for long enough and is evicted
		if err = waiting.reserve(size); err != nil && err != errRefused {
			t.Fatal(err)
		}
	}
	client.raw(frame.Bytes())
	if answer := client.next(); answer.Err == nil || answer.Err.Message != "no room for m" {
		t.Errorf("the message that stalled: %.100s %v", answer.Result, answer.Err)
	}
	waiting.drop()
	client.send(`{"id":3,"method":"m","params":"again"}`)
	if answer := client.next(); string(answer.Result) != `"again"` {
		t.Errorf("afterwards: %s %v", answer.Result, answer.Err)
	}
	c.Close(io.ErrClosedPipe)
	c.wait(t)
	nothingHeld(t, m)
}

// A message for which there is no room is dropped after a while, and answered; the
// requests that hold the room are not disturbed.
func TestMessageWithoutRoomIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		m := newMemory(size, MaxOutgoing)
		if !m.in.TryAcquire(size) { // requests that are answered late
			t.Fatal("no room")
		}
		for _, test := range []struct{ method, want string }{{"m", "no room for m"}, {"ordered", ""}} {
			a, b := pipePair(t)
			c, client := sharing(t, m, NewWebSocket(a, nil), echo), newPeer(t, b)
			go func() { // ends when all is read, or with the connection
				client.write(frames.New(frames.OpText, false, []byte(`{"id":"x","method":"`+test.method+`","params":["`+strings.Repeat("x", size/2))))
				client.write(frames.Ping([]byte("p")))
				client.write(frames.New(frames.OpContinuation, true, []byte(`"]}`)))
				client.write(frames.Text([]byte(`{"id":2,"method":"m","params":2}`)))
			}()
			if test.want == "" {
				if code, reason := client.goodbye(); code != CloseTryAgain || !strings.Contains(reason, "limit reached") {
					t.Errorf("%s ends with %d %s", test.method, code, reason)
				}
				c.wait(t)
				continue
			}
			for pong := false; !pong; { // our own ping is due as well
				f, err := client.frame()
				if err != nil {
					t.Fatal("the ping in between:", err)
				}
				pong = f.Op == frames.OpPong
			}
			if answer := client.next(); answer.Err == nil || answer.Err.Message != test.want {
				t.Errorf("%s: %s %v", test.method, answer.Result, answer.Err)
			}
			if answer := client.next(); string(answer.Result) != "2" {
				t.Errorf("the request behind it: %s %v", answer.Result, answer.Err)
			}
			c.Close(io.ErrClosedPipe)
			c.wait(t)
		}
		m.in.Release(size)
		nothingHeld(t, m)
	})
}

// The id and the method of a dropped request are found in its head, or else not at all.
func TestRequestHead(t *testing.T) {
	for head, want := range map[string]string{
		`{"id":1,"method":"m","params":[`:                 "m",
		`{"jsonrpc":"2.0","method":"m","id":"x","par`:     "m",
		`{"method":"m","trace":{"a":[1]},"id":1,"params"`: "m",
		`{"params":{"a":"xxx`:                             "",
		`{"method":"m","params":[1`:                       "",
		`{"id":1,"result":[`:                              "",
		`{"id":1,"method":7,"params"`:                     "",
		`{"id":{},"method":"m","params"`:                  "",
		`[1,2`:                                            "",
		``:                                                "",
	} {
		id, method, ok := requestHead([]byte(head))
		if !ok {
			method = ""
		}
		if method != want || ok && id == (wire.ID{}) {
			t.Errorf("%s: %q %v", head, method, ok)
		}
	}
}

// A connection may have some small requests unanswered whatever other connections do.
// After that a small request needs room; an urgent request never does.
func TestSmallRequestsNeedRoomInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 32 << 10
		m := newMemory(4*size, MaxOutgoing)
		a, b := pipePair(t)
		var waiting []*Request // only used by the reader, and at the end
		var seen atomic.Int64
		c := sharing(t, m, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) {
			seen.Add(1)
			if r.Method == "urgent" {
				r.Reply("done")
				return
			}
			waiting = append(waiting, r)
		}})
		client := newPeer(t, b)
		const most = spareRequests/size + 4 // of this size
		text := strings.Repeat("x", size-100)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for i := range most + 1 {
				client.sendf(`{"id":%d,"method":"m","params":"%s"}`, i, text)
			}
			client.send(`{"id":"u","method":"urgent"}`)
		}()
		synctest.Wait()
		if n := seen.Load(); n < most-1 || n > most+1 {
			t.Errorf("%d requests came in, want about %d", n, most)
		}
		for { // requests that found no room are refused, and the urgent request comes through
			answer := client.next()
			if string(answer.Result) == `"done"` {
				break
			}
			if answer.Err == nil || answer.Err.Message != "no room for m" {
				t.Fatalf("answered %s %v", answer.Result, answer.Err)
			}
		}
		<-sent
		c.Close(io.ErrClosedPipe)
		<-c.ended
		for _, r := range waiting {
			r.Reply(nil)
		}
		nothingHeld(t, m)
	})
}

// A large answer waits for room while other answers hold it, and is refused after a while.
// A small answer is prepared at once.
func TestAnswersNeedRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large = 2 * spareAnswers
		m := newMemory(MaxIncoming, 3*spareAnswers)
		a, _ := pipePair(t)
		c := sharing(t, m, NewWebSocket(a, nil), echo)
		request := func() *Request {
			c.allowance.requests.enter(0, false, false)
			return &Request{ID: wire.IntID(1), conn: c.Conn}
		}
		first := request()
		if err := first.Permit(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		second := request()
		if err := second.Permit(t.Context(), large); err != ErrNoRoom || time.Since(start) != roomTimeout {
			t.Errorf("a second one: %v after %v", err, time.Since(start))
		}
		second.Fail(wire.Errorf(-1, "x"))
		some := request()
		if n, err := some.PermitSome(t.Context(), large); n != spareAnswers || err != nil {
			t.Errorf("some of it: %d, %v", n, err)
		}
		small := request() // spare is used up, but there is shared room
		if err := small.Permit(t.Context(), spareAnswers); err != nil {
			t.Error(err)
		}
		more := request()
		if err := more.PermitMore(t.Context(), 1); err != ErrNoRoom {
			t.Errorf("more of it: %v", err)
		}
		for _, r := range []*Request{first, some, small, more} {
			r.Reply("x")
		}
		c.Close(io.ErrClosedPipe)
		<-c.ended
		nothingHeld(t, m)
	})
}

// Lines need room like frames. The dropped rest of a line is not taken for a message.
func TestLinesNeedRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(1<<20, MaxOutgoing)
		in, feed := io.Pipe()
		out, answers := io.Pipe()
		m.in.TryAcquire(1<<20 - smallMessage)
		c := sharing(t, m, NewLines(in, answers), echo)
		go func() { // ends when all is read
			fmt.Fprintf(feed, `{"id":1,"method":"m","params":"%s"}`+"\n", strings.Repeat("y", 300<<10))
			fmt.Fprintf(feed, `{"id":2,"method":"m","params":"ok"}`+"\r\n")
		}()
		var got bytes.Buffer
		for lines := 0; lines < 2; {
			b := make([]byte, 1000)
			n, err := out.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(b[:n])
			lines = strings.Count(got.String(), "\n")
		}
		const want = `{"error":{"code":-5,"message":"no room for m"},"id":1}` + "\n" + `{"id":2,"result":"ok"}` + "\n"
		if got.String() != want {
			t.Errorf("got  %s\nwant %s", got.String(), want)
		}
		c.Close(io.ErrClosedPipe)
		feed.Close()
		<-c.ended
		m.in.Release(1<<20 - smallMessage)
		nothingHeld(t, m)
	})
}

// A message that is written in pieces is one message, with pongs in between. It takes the
// memory of one piece.
func TestPieces(t *testing.T) {
	for name, frames := range map[string]bool{"websocket": true, "lines": false} {
		t.Run(name, func(t *testing.T) {
			a, b := tcpPair(t)
			var stream Stream = NewWebSocket(a, nil)
			if !frames {
				stream = NewLines(a, a)
			}
			settled := make(chan struct{})
			serve(t, stream, handlerFuncs{request: func(r *Request) {
				go func() { // ends when the answer is written
					n := 0
					r.ReplyPieces(func(b []byte) ([]byte, bool, error) {
						n++
						switch n {
						case 1:
							return append(b, `{"id":1,"result":"`...), true, nil
						case 5:
							return append(b, `"}`...), false, nil
						}
						return append(b, strings.Repeat(fmt.Sprint(n), PieceSize)...), true, nil
					})
					close(settled)
				}()
			}})
			want := `{"id":1,"result":"` + strings.Repeat("2", PieceSize) + strings.Repeat("3", PieceSize) + strings.Repeat("4", PieceSize) + `"}`
			if !frames {
				io.WriteString(b, `{"id":1,"method":"m"}`+"\n")
				got := make([]byte, len(want)+1)
				if _, err := io.ReadFull(b, got); err != nil || string(got) != want+"\n" {
					t.Errorf("got %.100q, %v", got, err)
				}
			} else {
				client := newPeer(t, b)
				client.send(`{"id":1,"method":"m"}`)
				msg, sizes := client.message()
				if string(msg) != want || len(sizes) != 5 {
					t.Errorf("got %.100q in %d frames", msg, len(sizes))
				}
			}
			<-settled
		})
	}
}

// An answer that cannot be completed ends the connection, with a reason.
func TestPiecesThatFail(t *testing.T) {
	a, b := tcpPair(t)
	settled := make(chan struct{})
	c := serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) {
		go func() { // ends with the connection
			n := 0
			r.ReplyPieces(func(b []byte) ([]byte, bool, error) {
				if n++; n > 1 {
					return nil, false, io.ErrNoProgress
				}
				return append(b, "begin"...), true, nil
			})
			close(settled)
		}()
	}})
	client := newPeer(t, b)
	client.send(`{"id":1,"method":"m"}`)
	if f, err := client.frame(); err != nil || string(f.Payload) != "begin" || f.Fin {
		t.Fatalf("%v %q %v", f.Op, f.Payload, err)
	}
	f, err := client.frame()
	if err != nil || f.Op != frames.OpClose || binary.BigEndian.Uint16(f.Payload) != CloseInternal {
		t.Errorf("%v %q %v", f.Op, f.Payload, err)
	}
	b.Close()
	<-settled
	c.wait(t)
}

// Pieces that were never begun are given up with the connection.
func TestPiecesOfAnEndedConnection(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	blocked, settled := make(chan struct{}), make(chan struct{})
	c := serve(t, NewWebSocket(a, nil), echo)
	c.allowance.requests.enter(0, false, false)
	c.allowance.requests.enter(0, false, false)
	go func() { // its first piece is never taken
		(&Request{conn: c.Conn}).ReplyPieces(func(b []byte) ([]byte, bool, error) {
			close(blocked)
			return append(b, "x"...), true, nil
		})
		settled <- struct{}{}
	}()
	<-blocked
	go func() {
		(&Request{conn: c.Conn}).ReplyPieces(func(b []byte) ([]byte, bool, error) { panic("never") })
		settled <- struct{}{}
	}()
	c.Close(io.ErrClosedPipe)
	<-settled
	<-settled
	c.wait(t)
}

// While a connection waits for room, it is not read. That does not count as silence
// of its peer.
func TestWaitForRoomIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		m := newMemory(size, MaxOutgoing)
		m.in.TryAcquire(size)
		g := begin(t, m, 1, size)
		time.Sleep(roomTimeout - 1)
		synctest.Wait()
		if got := string(g.served.liveness.pingPayload(1)); got != "unheard-ms=0" {
			t.Errorf("the payload of a ping is %s", got)
		}
		m.in.Release(size)
		<-g.sent
		endAll(t, m, []*begun{g})
	})
}

// A message waits only for the evictions that it may make, however often other messages
// were first.
func TestWaitForRoomIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		m := newMemory(10*size, MaxOutgoing)
		m.in.TryAcquire(6 * size) // requests that are answered late
		var stalled []*begun
		for i := range 4 {
			stalled = append(stalled, begin(t, m, i, size))
			synctest.Wait()
		}
		start := time.Now()
		a := arrival{memory: m, ctx: t.Context()}
		if err := a.reserve(8 * size); err != errRefused || time.Since(start) != (maxEvictions+1)*roomTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		synctest.Wait()
		if n := len(m.arriving); n != 4-maxEvictions {
			t.Errorf("%d messages are left", n)
		}
		m.in.Release(6 * size)
		endAll(t, m, stalled)
	})
}

// A message can be evicted just before its reader begins to wait for more room. The next
// message of the connection can then be evicted like any other.
func TestEvictedBeforeItWaits(t *testing.T) {
	m := newMemory(smallMessage+1, MaxOutgoing)
	m.timeout = 0
	interrupts := 0
	a := arrival{memory: m, ctx: t.Context(), interrupt: func() { interrupts++ }, restore: func() {}}
	for round := 1; round <= 2; round++ {
		if err := a.reserve(smallMessage + 1); err != nil {
			t.Fatal(err)
		}
		if !m.evictOldest(nil) || interrupts != round {
			t.Fatalf("message %d: the reader was interrupted %d times", round, interrupts)
		}
		if err := a.reserve(smallMessage + 2); err != errRefused {
			t.Fatalf("message %d: more room gives %v", round, err)
		}
		a.drop()
	}
	nothingHeld(t, m)
}

// A binary message that is skipped holds no room, whether there was room for it or not.
func TestSkippedMessagesHoldNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(2*smallMessage, MaxOutgoing)
		a, b := pipePair(t)
		stream := NewWebSocket(a, nil)
		stream.TextOnly()
		sharing(t, m, stream, echo)
		client := newPeer(t, b)
		for _, size := range []int{2 * smallMessage, 3 * smallMessage} {
			client.write(frames.New(frames.OpBinary, true, make([]byte, size)))
			synctest.Wait()
			nothingHeld(t, m)
			client.send(`{"id":1,"method":"m","params":"ok"}`)
			if answer := client.next(); string(answer.Result) != `"ok"` {
				t.Errorf("after %d bytes: %s %v", size, answer.Result, answer.Err)
			}
		}
	})
}

// A line that is skipped holds no room.
func TestSkippedLinesHoldNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(4*smallMessage, MaxOutgoing)
		in, feed := io.Pipe()
		stream := NewLines(in, nopCloser{io.Discard})
		stream.SkipInvalid()
		c := sharing(t, m, stream, echo)
		for _, line := range []string{strings.Repeat(" ", 2*smallMessage), strings.Repeat("\xff", 2*smallMessage)} {
			io.WriteString(feed, line+"\n")
			synctest.Wait()
			nothingHeld(t, m)
		}
		feed.Close()
		c.wait(t)
	})
}

// A request that is refused because its connection ends does not count as unanswered: a
// dismissed connection would wait for its answer.
func TestRequestsRefusedAtTheEndAreNotCounted(t *testing.T) {
	a, _ := pipePair(t)
	c := New(t.Context(), NewWebSocket(a, nil), Config{Handler: echo, Memory: newMemory(requestCost-1, MaxOutgoing)})
	c.cancel(io.ErrClosedPipe)
	if in, err := c.admit(&Request{conn: c, size: spareRequests + 1}); in || err != io.ErrClosedPipe {
		t.Errorf("a request that waits for room: %v, %v", in, err)
	}
	c.Dismiss(violation(ClosePolicy, "why"))
	if in, err := c.admit(&Request{conn: c}); in || err == nil {
		t.Errorf("a request of a dismissed connection: %v, %v", in, err)
	}
	if c.allowance.requests.more(0) {
		t.Error("refused requests are counted as unanswered")
	}
}
