package rpc

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"

	"github.com/tetherexec/tether/wire"
)

// A numberedSource is a source of numbered notifications.
type numberedSource struct {
	name    string
	have    atomic.Int64 // messages up to here exist
	next    int64
	written atomic.Int64 // next, when Written was called last
	calls   atomic.Int64 // of Written
	before  func()       // called first by Next, if not nil
}

func (s *numberedSource) Next(b *Batch) bool {
	if s.before != nil {
		s.before()
	}
	if s.next == s.have.Load() {
		return false
	}
	s.next++
	b.Seal(fmt.Appendf(b.Open(40), `{"method":"%s","params":%d}`, s.name, s.next))
	return true
}

func (s *numberedSource) Written() {
	s.written.Store(s.next)
	s.calls.Add(1)
}

func newNumberedSource(name string, have int64) *numberedSource {
	s := &numberedSource{name: name}
	s.have.Store(have)
	return s
}

func TestSourcesTakeTurns(t *testing.T) {
	const count = 5000 // more than one batch
	a, b := tcpPair(t)
	c := newConn(NewWebSocket(a, nil), echo)
	names := []string{"a", "b", "c"}
	var sources []*numberedSource
	for _, name := range names {
		s := newNumberedSource(name, count)
		sources = append(sources, s)
		c.Feed(s).Wake()
	}
	s := run(t, c)
	client := newPeer(t, b)
	for i := range count * len(names) {
		m := client.next()
		if want := fmt.Sprint(i/len(names) + 1); m.Method != names[i%len(names)] || string(m.Params) != want {
			t.Fatalf("message %d is %s %s", i, m.Method, m.Params)
		}
	}
	s.Close(violation(CloseNormal, "done")) // after the last Written
	b.Close()
	s.wait(t)
	for _, s := range sources {
		if s.written.Load() != count {
			t.Errorf("%s: written up to %d", s.name, s.written.Load())
		}
	}
}

func TestNoWakeIsLost(t *testing.T) {
	const producers, count = 8, 4000
	a, b := tcpPair(t)
	c := serve(t, NewWebSocket(a, nil), echo)
	client := newPeer(t, b)
	var running sync.WaitGroup
	defer running.Wait()
	for range producers {
		s := newNumberedSource("t", 0)
		f := c.Feed(s)
		running.Go(func() {
			for range count {
				s.have.Add(1)
				f.Wake()
			}
		})
	}
	for range producers * count {
		client.next()
	}
}

// Messages that are written inline, by the writer, or in two parts keep their
// order: the peer stops reading now and then, so that the stream fills up.
func TestInlineWritesKeepTheOrder(t *testing.T) {
	const rounds, burst = 20, 3000
	a, b := tcpPair(t)
	c := serve(t, NewWebSocket(a, nil), echo)
	client := newPeer(t, b)
	s := newNumberedSource("t", 0)
	f := c.Feed(s)
	want := int64(0)
	for round := range rounds {
		for i := range burst {
			s.have.Add(1)
			if (i+round)%3 == 0 {
				f.Wake()
			} else {
				f.WakeNow()
			}
		}
		for range burst {
			want++
			if m := client.next(); string(m.Params) != fmt.Sprint(want) {
				t.Fatalf("message %s, want %d", m.Params, want)
			}
		}
	}
}

// tryWriteNow needs no other goroutine: the message leaves although none runs the writer.
func TestTryWriteNowNeedsNoOtherGoroutine(t *testing.T) {
	a, b := tcpPair(t)
	c := newConn(NewWebSocket(a, nil), echo) // not served: there is no writer
	s := newNumberedSource("t", 1)
	c.Feed(s).WakeNow()
	if got := newPeer(t, b).next(); got.Method != "t" {
		t.Errorf("got %+v", got)
	}
	if s.written.Load() != 1 {
		t.Error("Written was not called")
	}
}

// The answer to the only request is written inline, however many inline writes came
// before. One of several answers may be collected with others.
func TestOnlyAnswerIsWrittenInline(t *testing.T) {
	a, b := tcpPair(t)
	c := newConn(NewWebSocket(a, nil), echo)                                              // not served: there is no writer
	c.writer.inline = inlineWrites{tick: time.Now().Add(time.Hour), count: inlinePerTick} // no further inline write in this tick
	answer := func(id int64) {
		r := &Request{ID: wire.IntID(id), conn: c, size: 1}
		r.Reply(wire.Empty{})
	}
	c.allowance.requests.enter(1, false, false)
	answer(1)
	if id, ok := newPeer(t, b).next().ID.Int(); !ok || id != 1 {
		t.Errorf("answer to %d", id)
	}
	c.allowance.requests.enter(1, false, false)
	c.allowance.requests.enter(1, false, false)
	answer(2)
	if len(c.writer.queue.messages) != 1 {
		t.Error("one of two answers was not left to the writer")
	}
}

// A source may get a message just after it has reported that it has none.
// A hurriedConn counts how often it has to hurry.
type hurriedConn struct {
	net.Conn
	count atomic.Int64
}

func (c *hurriedConn) Hurry() { c.count.Add(1) }

// Answers and notifications let a connection hurry that collects messages of sources. Those do not.
func TestMessagesHurry(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	conn := &hurriedConn{Conn: near}
	c := newConn(NewWebSocket(conn, nil), echo)
	c.Feed(newNumberedSource("source", 1)).Wake()
	if n := conn.count.Load(); n != 0 {
		t.Errorf("a source hurries %d times", n)
	}
	if sent, err := c.NotifyIfRoom("note", nil); !sent || err != nil {
		t.Error(sent, err)
	}
	if n := conn.count.Load(); n != 1 {
		t.Errorf("a notification hurries %d times", n)
	}
}

func TestWakeDuringNext(t *testing.T) {
	a, b := tcpPair(t)
	c := newConn(NewWebSocket(a, nil), echo)
	s := &lateSource{numberedSource: newNumberedSource("late", 0)}
	s.feed = c.Feed(s)
	s.feed.Wake()
	run(t, c)
	client := newPeer(t, b)
	for range lateMessages {
		client.next()
	}
}

const lateMessages = 10

type lateSource struct {
	*numberedSource
	feed *Feed
}

func (s *lateSource) Next(b *Batch) bool {
	some := s.numberedSource.Next(b)
	if !some && s.have.Load() < lateMessages {
		s.have.Add(1)
		s.feed.Wake()
	}
	return some
}

// If a source is woken after an answer was given, its message must not overtake the
// answer, even while the writer collects from other sources.
func TestFirstNotificationFollowsTheAnswer(t *testing.T) {
	a, b := tcpPair(t)
	c := serve(t, NewWebSocket(a, nil), echo)
	client := newPeer(t, b)
	process := newNumberedSource("process", 1)
	other := newNumberedSource("other", 1)
	other.before = func() {
		other.before = nil
		r := &Request{ID: wire.IntID(1), conn: c.Conn, size: 10}
		if _, ok := c.allowance.requests.enter(r.size, false, false); !ok {
			t.Error("ended")
		}
		r.Reply("started")
		c.Feed(process).Wake()
	}
	c.Feed(other).Wake()
	var got []string
	for range 3 {
		m := client.next()
		got = append(got, m.Method+string(m.Result))
	}
	if s := strings.Join(got, " "); s != `other "started" process` {
		t.Errorf("came as %s", s)
	}
}

func TestAnswersGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		c := serve(t, NewWebSocket(a, nil), echo)
		client := newPeer(t, b)
		client.send(`{"id":1,"method":"m"}`)
		synctest.Wait() // the writer is stuck with it
		c.Feed(newNumberedSource("note", 2)).Wake()
		client.send(`{"id":2,"method":"m"}`)
		client.send(`{"id":3,"method":"m"}`)
		synctest.Wait()
		var got []string
		for range 5 {
			if m := client.next(); m.Kind == wire.KindNotification {
				got = append(got, m.Method)
			} else {
				got = append(got, m.ID.String())
			}
		}
		if s := strings.Join(got, " "); s != "1 2 3 note note" {
			t.Errorf("came as %s", s)
		}
	})
}

func TestLargeAnswersKeepTheOrder(t *testing.T) {
	a, b := tcpPair(t)
	sizes := []int{10, 20 << 20, 10, largeMessage, largeMessage + 1, 3 << 20, 10}
	var written []int // by the writer
	hold := make(chan struct{})
	var answers sync.WaitGroup
	c := serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) {
		id, _ := r.ID.Int()
		answers.Go(func() {
			<-hold
			if id > 0 {
				return
			}
			for i, n := range sizes { // all queued together
				r := &Request{ID: wire.IntID(int64(i)), conn: r.conn, size: 1}
				r.conn.allowance.requests.enter(r.size, false, false)
				msg, _ := wire.AppendResult(nil, r.ID, strings.Repeat("x", n))
				r.ReplyEncodedLater(msg, func() { written = append(written, i) })
			}
		})
	}})
	client := newPeer(t, b)
	client.send(`{"id":0,"method":"m"}`)
	close(hold)
	for i, n := range sizes {
		data, frames := client.message()
		want, _ := wire.AppendResult(nil, wire.IntID(int64(i)), strings.Repeat("x", n))
		if !bytes.Equal(data, want) {
			t.Fatalf("answer %d has %d bytes, want %d", i, len(data), len(want))
		}
		if len(data) > maxFrame && len(frames) == 1 {
			t.Errorf("answer %d of %d bytes is one frame", i, len(data))
		}
	}
	answers.Wait()
	c.Close(violation(CloseNormal, "done"))
	b.Close()
	c.wait(t)
	if got := fmt.Sprint(written); got != "[0 1 2 3 4 5 6]" {
		t.Errorf("written %s", got)
	}
}

// Written is called for messages that the stream has taken, and for no others.
func TestWrittenIsCalledWhenTheStreamHasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		var written []string
		c := serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) {
			msg, _ := wire.AppendResult(nil, r.ID, nil)
			r.ReplyEncodedLater(msg, func() { written = append(written, r.ID.String()) })
		}})
		client := newPeer(t, b)
		client.in = bufio.NewReaderSize(b, 16) // takes little in advance
		source := newNumberedSource("note", 1)
		client.send(`{"id":1,"method":"m"}`)
		synctest.Wait()
		client.send(`{"id":2,"method":"m"}`)
		c.Feed(source).Wake()
		synctest.Wait()
		if len(written) != 0 || source.calls.Load() != 0 {
			t.Errorf("nothing was taken, but %v and %d are written", written, source.calls.Load())
		}
		client.next()
		synctest.Wait()
		if fmt.Sprint(written) != "[1]" || source.calls.Load() != 0 {
			t.Errorf("1 was taken, but %v and %d are written", written, source.calls.Load())
		}
		client.next() // answer 2, whose batch holds the notification
		b.Close()
		<-c.ended
		if fmt.Sprint(written) != "[1]" || source.calls.Load() != 0 {
			t.Errorf("a batch was cut, but %v and %d are written", written, source.calls.Load())
		}
		if c.allowance.requests.count != 0 {
			t.Errorf("%d requests are still held", c.allowance.requests.count)
		}
	})
}

func TestStoppedSourceIsNotCalled(t *testing.T) {
	a, b := tcpPair(t)
	c := newConn(NewWebSocket(a, nil), echo)
	stopped, other := newNumberedSource("stopped", 1), newNumberedSource("other", 1)
	stopped.before = func() { t.Error("a stopped source is used") }
	f := c.Feed(stopped)
	f.Wake()
	f.Stop()
	c.Feed(other).Wake()
	run(t, c)
	if m := newPeer(t, b).next(); m.Method != "other" {
		t.Errorf("got %s", m.Method)
	}
}

// A peer that sends requests of all kinds and reads nothing reaches its limits and
// is then not read any more.
func TestPeerThatNeverReads(t *testing.T) {
	for name, text := range map[string]string{
		"requests":  `{"id":1,"method":"m","params":"` + strings.Repeat("x", 1000) + `"}`,
		"malformed": `{`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pipePair(t)
				var seen atomic.Int64
				c := serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) {
					seen.Add(1)
					r.Reply(r.Params)
				}})
				client := newPeer(t, b)
				sent := make(chan int)
				go func() {
					n := 0
					for client.write(frames.Text([]byte(text))) == nil {
						n++
					}
					sent <- n
				}()
				synctest.Wait()
				if name == "requests" && seen.Load() != MaxRequests {
					t.Errorf("%d requests are seen", seen.Load())
				}
				c.writer.queue.mu.Lock()
				queued := len(c.writer.queue.messages)
				c.writer.queue.mu.Unlock()
				if queued > MaxRequests || c.allowance.requests.count != MaxRequests {
					t.Errorf("%d answers are queued, %d requests held", queued, c.allowance.requests.count)
				}
				b.Close()
				<-c.ended
				if n := <-sent; n < MaxRequests || n > MaxRequests+2*readBuffer {
					t.Errorf("%d requests could be sent", n)
				}
			})
		})
	}
}

// Answers without a permit count too: large ones stop the reader early.
func TestUnreadAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		const size = 4 << 20
		answer := strings.Repeat("x", size)
		var seen atomic.Int64
		c := serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) {
			seen.Add(1)
			r.Reply(answer)
		}})
		client := newPeer(t, b)
		go func() {
			for client.write(frames.Text([]byte(`{"id":1,"method":"m"}`))) == nil {
			}
		}()
		synctest.Wait()
		if n := seen.Load() * size; n < maxRequestBytes-2*size || n > maxRequestBytes+size {
			t.Errorf("answers of %d bytes wait", n)
		}
		for range maxRequestBytes/size + 8 { // and it goes on when they are taken
			client.next()
		}
		b.Close()
		<-c.ended
	})
}

func TestPingFloodIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		serve(t, NewWebSocket(a, nil), echo)
		client := newPeer(t, b)
		const count = 10_000
		for i := range count {
			if err := client.write(frames.Ping(fmt.Append(nil, i))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for n := 1; ; n++ {
			f, err := client.frame()
			if err != nil || f.Op != frames.OpPong {
				t.Fatalf("got %+v, %v", f, err)
			}
			if string(f.Payload) == fmt.Sprint(count-1) {
				if n > 3 {
					t.Errorf("%d pongs were kept", n)
				}
				return
			}
		}
	})
}

func TestNotifyWaitsForThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		c := serve(t, NewWebSocket(a, nil), echo)
		client := newPeer(t, b)
		const size = 1 << 20
		text := strings.Repeat("n", size)
		var sent atomic.Int64
		ended := make(chan error, 1)
		go func() {
			for {
				if err := c.Notify("note", text); err != nil {
					ended <- err
					return
				}
				sent.Add(1)
			}
		}()
		synctest.Wait()
		full := sent.Load()
		if full*size > maxNoteBytes || full < maxNoteBytes/size-2 {
			t.Errorf("%d notifications are queued", full)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1)
		defer cancel()
		if _, err := c.Call(ctx, "ask", text); err != context.DeadlineExceeded {
			t.Errorf("a call on top: %v", err)
		}
		client.next()
		synctest.Wait()
		if sent.Load() != full+1 {
			t.Errorf("after one was taken, %d more are queued", sent.Load()-full)
		}
		c.Close(io.ErrClosedPipe)
		if err := <-ended; err != io.ErrClosedPipe {
			t.Errorf("ended with %v", err)
		}
		<-c.ended
	})
}

func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		const share = MaxAnswerBytes / 4
		answer := `{"id":1,"result":"` + strings.Repeat("x", share-20) + `"}`
		gate := make(chan struct{}) // huge answers are not ready before
		var granted atomic.Int64
		var tasks sync.WaitGroup
		c := serve(t, NewWebSocket(a, nil), handlerFuncs{request: func(r *Request) {
			tasks.Go(func() {
				size := int64(share)
				if r.Method == "huge" {
					size = 10 * MaxAnswerBytes
				}
				if err := r.Permit(r.conn.Context(), size); err != nil {
					r.Fail(wire.Errorf(-1, "%v", err))
					return
				}
				granted.Add(1)
				if r.Method == "huge" {
					<-gate
					r.Reply(r.Params)
					return
				}
				r.ReplyEncoded([]byte(answer))
			})
		}})
		client := newPeer(t, b)
		for i := range 6 {
			client.sendf(`{"id":%d,"method":"m"}`, i)
		}
		synctest.Wait()
		if granted.Load() != 4 {
			t.Errorf("%d permits were granted", granted.Load())
		}
		client.message()
		synctest.Wait()
		if granted.Load() < 5 {
			t.Errorf("%d permits were granted when one answer was taken", granted.Load())
		}
		for range 5 {
			client.message()
		}
		client.send(`{"id":8,"method":"huge"}`)
		synctest.Wait()
		client.send(`{"id":9,"method":"m"}`)
		synctest.Wait()
		if granted.Load() != 7 {
			t.Errorf("%d permits were granted", granted.Load())
		}
		c.Close(io.ErrClosedPipe) // ends the waits
		close(gate)
		tasks.Wait()
		<-c.ended
		if !c.allowance.permits.TryAcquire(MaxAnswerBytes) || !c.allowance.spare.TryAcquire(spareAnswers) {
			t.Error("a permit was not given back")
		}
		nothingHeld(t, c.allowance.memory)
	})
}

func TestIdleConnectionKeepsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 20 * keepQueued
		a, b := pipePair(t)
		c := serve(t, NewWebSocket(a, nil), echo)
		client := newPeer(t, b)
		for i := range count {
			client.sendf(`{"id":%d,"method":"m"}`, i)
			c.Feed(newNumberedSource("note", 1)).Wake()
		}
		synctest.Wait()
		room := func() (answers, sources int) {
			c.writer.queue.mu.Lock()
			defer c.writer.queue.mu.Unlock()
			return cap(c.writer.queue.messages), cap(c.writer.queue.feeds)
		}
		if answers, sources := room(); answers < count/2 || sources < count/2 {
			t.Errorf("%d answers and %d sources wait", answers, sources)
		}
		for range 2 * count {
			client.next()
		}
		synctest.Wait()
		if answers, sources := room(); answers > keepQueued || sources > keepQueued {
			t.Errorf("room for %d answers and %d sources is kept", answers, sources)
		}
	})
}
