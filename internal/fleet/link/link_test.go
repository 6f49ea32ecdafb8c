package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/nettest"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bus delivers frames between a gateway and a host in order, as NATS does, and loses those that a test wants lost.
type bus struct {
	gateway, host *Mux
	accepted      chan accepted
	away          atomic.Bool // it takes no messages

	mu   sync.Mutex
	lose func(subject string, frame []byte) bool // nil: nothing is lost
}

type accepted struct {
	link *Link
	open string
}

const patience = hang.Limit

var errAway = errors.New("the bus is away")

func newBus(t *testing.T) *bus {
	b := &bus{accepted: make(chan accepted, 100)}
	up, down := make(chan message, 1000), make(chan message, 1000)
	b.gateway = NewMux(Config{Publish: b.publish(up), MaxLinks: 10, Log: slog.New(slog.DiscardHandler)})
	b.host = NewMux(Config{Publish: b.publish(down), MaxLinks: 10, Accept: func(l *Link, open []byte) { b.accepted <- accepted{l, string(open)} }})
	stop := make(chan struct{})
	var tasks sync.WaitGroup
	for mux, queue := range map[*Mux]chan message{b.host: up, b.gateway: down} {
		tasks.Go(func() {
			for {
				select {
				case m := <-queue:
					mux.Receive(m.subject, m.frame)
				case <-stop:
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		b.gateway.Close()
		b.host.Close()
		close(stop)
		tasks.Wait()
	})
	return b
}

type message struct {
	subject string
	frame   []byte
}

func (b *bus) publish(to chan message) func(string, []byte) error {
	return func(subject string, frame []byte) error {
		if b.away.Load() {
			return errAway
		}
		b.mu.Lock()
		lost := b.lose != nil && b.lose(subject, frame)
		b.mu.Unlock()
		if !lost {
			to <- message{subject, bytes.Clone(frame)}
		}
		return nil
	}
}

// losing sets which frames are lost from now on.
func (b *bus) losing(lose func(subject string, frame []byte) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lose = lose
}

// pair opens a link and returns its ends.
func (b *bus) pair(t testing.TB) (gateway, host *Link) {
	t.Helper()
	s := fleet.LinkSubject{Host: "box", Process: "1", Gateway: "gate", Link: fleet.NewID(), Up: true}
	gateway, err := b.gateway.Open(s, minWindow, []byte("hello"), b.gateway.config.Publish)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case a := <-b.accepted:
		if a.open != "hello" {
			t.Fatalf("the host was told %q", a.open)
		}
		a.link.SetWindow(minWindow)
		return gateway, a.link
	case <-time.After(patience):
		t.Fatal("the link was not accepted")
	}
	return nil, nil
}

// A link keeps all rules of net.Conn.
func TestLinkIsAConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		b := newBus(t)
		gateway, host := b.pair(t)
		return gateway, host, func() { gateway.Close(); host.Close() }, nil
	})
}

// Bytes arrive complete and in order, also if the reader is slower than the writer, and the writer then waits.
func TestLinkKeepsTheStream(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	sent := make([]byte, 20*minWindow)
	for i := range sent {
		sent[i] = byte(rand.Uint32())
	}
	written := make(chan error, 1)
	go func() {
		rest := sent
		for len(rest) > 0 {
			n := min(len(rest), 1+rand.IntN(3*maxData))
			if _, err := host.Write(rest[:n]); err != nil {
				written <- err
				return
			}
			rest = rest[n:]
		}
		written <- host.CloseWrite()
	}()
	var got []byte
	for {
		pieces, note, err := gateway.Next(nil)
		if err == io.EOF {
			break
		}
		if err != nil || note != nil {
			t.Fatal(note, err)
		}
		all := slices.Concat(pieces...)
		got = append(got, all...)
		gateway.mu.Lock()
		waiting := gateway.incoming.received - gateway.incoming.consumed
		gateway.mu.Unlock()
		if waiting > minWindow {
			t.Fatalf("%d bytes wait for the reader", waiting)
		}
		gateway.Consumed(len(all))
	}
	if err := <-written; err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
	}
}

// A lost frame ends the link at both ends. What was before it can be read.
func TestLossEndsTheLink(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	write(t, host, "first")
	read(t, gateway, "first")
	b.losing(func(_ string, f []byte) bool { return kind(f[0]) == frameData })
	write(t, host, "lost")
	b.losing(nil)
	write(t, host, "third")
	expectEnd(t, gateway, Lost)
	expectEnd(t, host, Lost)
	if b.gateway.Len() != 0 || b.host.Len() != 0 {
		t.Error("the link is still known")
	}
}

// If the last frame was lost, a check finds it. A check of a complete stream changes nothing.
func TestCheckFindsALoss(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	write(t, host, "first")
	b.gateway.CheckAll()
	b.host.CheckAll()
	write(t, host, "second")
	read(t, gateway, "firstsecond")
	b.losing(func(string, []byte) bool { return true })
	write(t, gateway, "lost")
	b.losing(nil)
	b.host.CheckAll() // asks the gateway
	expectEnd(t, host, Lost)
	expectEnd(t, gateway, Lost)
}

// If what the reader has consumed does not get to the writer, a check after an interruption tells it again.
func TestCheckRenewsLostCredit(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	b.losing(func(_ string, f []byte) bool { return kind(f[0]) == frameAck })
	if n, err := host.TryWrite(make([]byte, 2*minWindow)); n != minWindow || err != nil {
		t.Fatal(n, err)
	}
	if _, err := io.ReadFull(gateway, make([]byte, minWindow)); err != nil {
		t.Fatal(err)
	}
	b.losing(nil)
	b.host.CheckAll()
	host.SetWriteDeadline(time.Now().Add(patience))
	write(t, host, "goes on")
	read(t, gateway, "goes on")
}

// Frames may be lost between two hubs without an interruption that an end could notice. Each end asks the other one now and then, if the link
// is stuck or silent: the writer gets its credit again, and a link whose other end is gone ends.
func TestSilentLossesAreFound(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	b.losing(func(_ string, f []byte) bool { return kind(f[0]) == frameAck })
	if n, err := host.TryWrite(make([]byte, 2*minWindow)); n != minWindow || err != nil {
		t.Fatal(n, err)
	}
	if _, err := io.ReadFull(gateway, make([]byte, minWindow)); err != nil {
		t.Fatal(err)
	}
	b.losing(func(_ string, f []byte) bool { return kind(f[0]) == frameCheck })
	b.host.tick()
	b.losing(nil)
	b.host.tick()
	host.SetWriteDeadline(time.Now().Add(patience))
	write(t, host, "goes on")
	read(t, gateway, "goes on")

	b.losing(func(string, []byte) bool { return true })
	host.Close()
	b.losing(nil)
	b.gateway.tick() // the gateway has heard of the host before
	b.gateway.tick()
	expectEnd(t, gateway, Unknown)
}

// A link that is used is not asked about.
func TestUsedLinkIsNotAskedAbout(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	var mu sync.Mutex
	asked := 0
	b.losing(func(_ string, f []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		if kind(f[0]) == frameCheck && f[headerSize] == 1 {
			asked++
		}
		return false
	})
	for range 3 {
		write(t, host, "ping")
		read(t, gateway, "ping")
		write(t, gateway, "pong")
		read(t, host, "pong")
		b.gateway.tick()
		b.host.tick()
	}
	mu.Lock()
	defer mu.Unlock()
	if asked > 0 {
		t.Errorf("%d questions", asked)
	}
}

// If the bus is away, a write ends the link here at once, and at the other end when the bus is back.
func TestWriteWithoutABus(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	b.away.Store(true)
	if _, err := host.Write([]byte("x")); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	expectEnd(t, host, Lost)
	b.away.Store(false)
	b.host.CheckAll()
	expectEnd(t, gateway, Lost)
}

// An end that was started again does not know its links, and says so.
func TestUnknownLink(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	b.host.remove(host)
	write(t, gateway, "x")
	expectEnd(t, gateway, Unknown)
}

// A reader that does not read delays no other link.
func TestSlowReaderDelaysOnlyItself(t *testing.T) {
	b := newBus(t)
	_, slow := b.pair(t)
	quickGateway, quick := b.pair(t)
	if n, err := slow.TryWrite(make([]byte, 2*minWindow)); n != minWindow || err != nil {
		t.Fatal(n, err)
	}
	write(t, quick, "quick")
	read(t, quickGateway, "quick")
}

// A note keeps its place in the stream.
func TestNoteKeepsItsPlace(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	write(t, host, "before")
	if err := host.Note([]byte("note")); err != nil {
		t.Fatal(err)
	}
	write(t, host, "after")
	var got []string
	for len(got) < 3 {
		pieces, note, err := gateway.Next(nil)
		if err != nil {
			t.Fatal(err)
		}
		if note != nil {
			got = append(got, string(note))
		}
		for _, p := range pieces {
			got = append(got, string(p))
		}
	}
	if !slices.Equal(got, []string{"before", "note", "after"}) {
		t.Error(got)
	}
}

// After the deadline, Next fails even if something has arrived, as Read does. It stays there.
func TestNextKeepsTheDeadline(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	write(t, host, "x")
	if err := gateway.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	gateway.SetReadDeadline(time.Unix(1, 0))
	if pieces, _, err := gateway.Next(nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%q %v", pieces, err)
	}
	read(t, gateway, "x")
}

// Both ends close: what was written before is read first.
func TestClose(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	write(t, host, "last words")
	host.Close()
	read(t, gateway, "last words")
	if _, err := gateway.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	if _, err := gateway.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}

	gateway, host = b.pair(t)
	if err := gateway.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	write(t, host, "answer") // one direction is still open
	read(t, gateway, "answer")
	host.CloseWrite()
	<-gateway.Done()
	<-host.Done()
	if b.gateway.Len() != 0 || b.host.Len() != 0 {
		t.Error("links are left")
	}
}

// An end that does not keep to the rules loses the link, and takes no more memory than the window.
func TestRulesAreEnforced(t *testing.T) {
	note := appendFrame(nil, frameNote, 0, []byte("x"))
	for name, misuse := range map[string][][]byte{
		"more than the window":          slices.Repeat([][]byte{appendFrame(nil, frameData, 0, make([]byte, minWindow+1))}, 1),
		"acknowledges too much":         {appendFrame(nil, frameAck, 1, nil)},
		"too many notes":                slices.Repeat([][]byte{note}, maxNotes+1),
		"a long note":                   {appendFrame(nil, frameNote, 0, make([]byte, maxNote+1))},
		"opened twice":                  {{byte(frameOpen)}},
		"not a frame":                   {{99}},
		"an empty frame":                {{}},
		"a short frame":                 {{byte(frameData), 0}},
		"bytes after the end":           {appendFrame(nil, frameFin, 0, nil), appendFrame(nil, frameData, 0, []byte("x"))},
		"a check with a wrong question": {appendFrame(nil, frameCheck, 0, []byte{2})},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(t)
			gateway, _ := b.pair(t)
			for _, f := range misuse {
				b.gateway.Receive(gateway.in, f)
			}
			expectEnd(t, gateway, Misused)
		})
	}
}

// The rest of a window is left free if it is small, and used again when the other end has read.
func TestNoSmallFrameEndsTheWindow(t *testing.T) {
	b := newBus(t)
	gateway, host := b.pair(t)
	data := make([]byte, minWindow*5/12) // two of them leave a sixth of the window
	for i, want := range []int{len(data), len(data), 0} {
		if n, err := gateway.TryWrite(data); n != want || err != nil {
			t.Fatalf("write %d: %d bytes, %v; want %d", i, n, err, want)
		}
	}
	if _, err := io.ReadFull(host, make([]byte, 2*len(data))); err != nil {
		t.Fatal(err)
	}
	if err := gateway.awaitCredit(); err != nil {
		t.Fatal(err)
	}
	if n, err := gateway.TryWrite(data); n != len(data) || err != nil {
		t.Errorf("after the other end has read: %d bytes, %v", n, err)
	}
}

// Frames of one byte each, which a hostile peer may send, take little more memory than one large frame.
func TestSmallFramesAreJoined(t *testing.T) {
	b := newBus(t)
	gateway, _ := b.pair(t)
	for i := range uint64(minWindow) {
		b.gateway.Receive(gateway.in, appendFrame(nil, frameData, i, []byte{byte(i)}))
	}
	gateway.mu.Lock()
	pieces := len(gateway.incoming.items)
	gateway.mu.Unlock()
	if pieces > 2*minWindow/smallPiece {
		t.Errorf("%d pieces", pieces)
	}
	got := make([]byte, minWindow)
	if _, err := io.ReadFull(gateway, got); err != nil {
		t.Fatal(err)
	}
	for i, c := range got {
		if c != byte(i) {
			t.Fatalf("byte %d is %d", i, c)
		}
	}
}

// The number of links is limited at both ends.
func TestTooManyLinks(t *testing.T) {
	b := newBus(t)
	for range b.gateway.config.MaxLinks {
		b.pair(t)
	}
	if _, err := b.gateway.Open(fleet.LinkSubject{Host: "box", Process: "1", Gateway: "gate", Link: "x", Up: true}, 0, nil, b.gateway.config.Publish); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	other := NewMux(Config{Publish: b.gateway.config.Publish, MaxLinks: 1})
	unsent := func(string, []byte) error { return nil }
	l, err := other.Open(fleet.LinkSubject{Host: "box", Process: "1", Gateway: "other", Link: "x", Up: true}, 0, nil, unsent)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	refusal := make(chan message, 1)
	b.losing(func(subject string, frame []byte) bool {
		if subject == l.in {
			refusal <- message{subject, bytes.Clone(frame)}
		}
		return true
	})
	b.host.Receive(l.out, []byte{byte(frameOpen)})
	m := <-refusal
	other.Receive(m.subject, m.frame)
	expectEnd(t, l, Refused)
}

// Run checks the links until its context ends.
func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	newBus(t).gateway.Run(ctx)
}

func write(t *testing.T, l *Link, text string) {
	t.Helper()
	if _, err := l.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, l *Link, want string) {
	t.Helper()
	l.SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(l, got); err != nil || string(got) != want {
		t.Fatalf("%q, %v", got, err)
	}
	l.SetReadDeadline(time.Time{})
}

// expectEnd waits until the link has ended for a reason. What has arrived before is read.
func expectEnd(t *testing.T, l *Link, code Code) {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(patience):
		t.Fatal("the link has not ended")
	}
	for {
		_, err := l.Read(make([]byte, 100))
		if err == nil {
			continue
		}
		if e, ok := errors.AsType[*EndError](err); !ok || e.Code != code || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the link has ended with %v", err)
		}
		return
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(appendFrame(nil, frameData, 0, []byte("x")))
	f.Add([]byte{byte(frameClose), 1, 'x'})
	f.Add(appendFrame(nil, frameCheck, 0, []byte{1}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		m := NewMux(Config{Publish: func(string, []byte) error { return nil }, MaxLinks: 1, Accept: func(l *Link, _ []byte) {}})
		subject := fleet.LinkSubject{Host: "box", Process: "1", Gateway: "gate", Link: "l", Up: true}.String()
		m.Receive(subject, frame)
		m.Receive(subject, []byte{byte(frameOpen)})
		m.Receive(subject, frame)
		m.Receive(subject, frame)
		m.Close()
	})
}
