package ports

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A model is one direction of a forwarded connection, without sockets and messages.
type model struct {
	t      *testing.T
	source []byte // of which the first out.end bytes were read
	out    outgoing
	in     incoming
}

const modelWindow = MinWindow

// step does what an event of a connection does: data is read, sent, written or acknowledged, or the connection is lost.
func (m *model) step(kind, size byte) {
	switch kind % 6 {
	case 0: // the socket has bytes
		room := min(m.out.room(modelWindow), 1+300*int(size), len(m.source)-int(m.out.end))
		if room <= 0 {
			break
		}
		space := m.out.space(minBlock << (size % 3))
		n := copy(space[:min(len(space), room)], m.source[m.out.end:])
		m.out.grow(n)
	case 1: // a message arrives
		m.send(m.out.sent)
	case 2: // the socket takes bytes
		if len(m.in.chunks) > 0 {
			if at := m.in.written; !bytes.Equal(m.in.chunks[0], m.source[at:at+uint64(len(m.in.chunks[0]))]) {
				m.t.Fatalf("behind %d bytes, the socket gets others", at)
			}
			m.in.written += uint64(len(m.in.chunks[0]))
			m.in.chunks = m.in.chunks[1:]
		}
	case 3: // an acknowledgement arrives
		if m.in.ackDue() {
			m.in.acked, m.in.force = m.in.written, false
			m.ack()
		}
	case 4: // a message and an acknowledgement are lost with the connection
		m.out.sent += uint64(len(m.out.next()))
		if size%2 == 0 {
			m.ack() // the acknowledgement of what came before is not lost
		}
		m.in.acked = m.in.written
		m.resume()
	case 5: // the other end had more than the sender knows
		m.send(m.out.sent)
		m.resume()
		late := m.in.received - min(m.in.received, uint64(size)) // bytes of the earlier connection arrive again
		if err := m.in.take(late, m.source[late:m.in.received], false); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *model) send(from uint64) {
	m.out.sent = from
	chunk := bytes.Clone(m.out.next())
	if err := m.in.take(from, chunk, false); err != nil {
		m.t.Fatal(err)
	}
	m.out.sent += uint64(len(chunk))
}

func (m *model) ack() {
	if !m.out.ack(m.in.written, m.in.limit()) {
		m.t.Fatalf("%d bytes cannot be acknowledged, %d were sent", m.in.written, m.out.sent)
	}
}

func (m *model) resume() {
	if !m.out.continueAt(m.in.received, m.in.limit()) {
		m.t.Fatalf("cannot continue at %d of %d to %d", m.in.received, m.out.acked, m.out.end)
	}
	m.in.force = true
}

func (m *model) check() {
	if kept := m.out.end - m.out.base; m.out.end-m.out.acked > modelWindow || kept > 2*modelWindow || m.in.received-m.in.written > modelWindow {
		m.t.Fatalf("%d bytes are kept, %d wait", kept, m.in.received-m.in.written)
	}
}

// In whatever order things happen, the socket gets the bytes of the other one in order, each once, and what is kept is bounded.
func FuzzDirection(f *testing.F) {
	source := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(source)
	f.Add([]byte{0, 255, 1, 0, 2, 0, 3, 0, 4, 9, 5, 200, 0, 1, 1, 1, 0, 0})
	f.Add(bytes.Repeat([]byte{0, 200, 0, 200, 1, 0, 2, 0, 4, 0}, 40))
	f.Add(bytes.Repeat([]byte{0, 200, 1, 0, 5, 77, 2, 0, 3, 0}, 40))
	f.Fuzz(func(t *testing.T, steps []byte) {
		m := &model{t: t, source: source}
		m.in.window = modelWindow
		m.out.limit = modelWindow
		for i := 0; i+1 < len(steps); i += 2 {
			m.step(steps[i], steps[i+1])
			m.check()
		}
		for m.in.written < m.out.end { // what is left arrives
			before := m.in.written
			for kind := byte(1); kind < 4; kind++ {
				m.step(kind, 0)
			}
			m.resume()
			m.step(3, 0)
			if m.in.written == before && len(m.in.chunks) == 0 && len(m.out.next()) == 0 {
				t.Fatalf("nothing moves at %d of %d", before, m.out.end)
			}
		}
		m.check()
	})
}

// The other end cannot make an end keep more than its window, leave bytes out or go on behind the end.
func TestRulesForTheOtherEnd(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		name   string
		offset uint64
		length int
		want   string
	}{
		{"a gap", 11, 1, "are missing"},
		{"a gap of nearly all", 1<<64 - 1, 1, "are missing"},
		{"too much", 10, modelWindow + 1, "limit"},
		{"bytes again", 4, 6, ""},
		{"some bytes again", 4, 10, ""},
	} {
		in := incoming{window: modelWindow}
		if err := in.take(0, make([]byte, 10), false); err != nil {
			t.Fatal(err)
		}
		in.written = 10
		err := in.take(try.offset, make([]byte, try.length), false)
		if try.want == "" && err != nil || try.want != "" && (err == nil || !strings.Contains(err.Error(), try.want)) {
			t.Errorf("%s: %v", try.name, err)
		}
	}
	in := incoming{window: modelWindow}
	if err := errors.Join(in.take(0, []byte("end"), true), in.take(0, []byte("end"), true), in.take(3, nil, true)); err != nil {
		t.Error(err)
	}
	if in.take(3, []byte("x"), false) == nil {
		t.Error("bytes behind the end were taken")
	}
	var out outgoing
	if out.ack(1, 1) || out.continueAt(1, 1) {
		t.Error("bytes that were never sent were acknowledged")
	}
}

// Messages of one byte do not cost a multiple of their bytes for ever.
func TestSmallChunksShareMemory(t *testing.T) {
	t.Parallel()
	in := incoming{window: Window}
	for i := range uint64(10_000) {
		if err := in.take(i, []byte{byte(i)}, false); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(in.chunks); n > 200 {
		t.Errorf("10,000 bytes are in %d pieces", n)
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		policy Policy
		host   string
		want   error
	}{
		{Loopback, "", nil}, {Loopback, "LocalHost", nil}, {Loopback, "127.1.2.3", nil}, {Loopback, "::1", nil}, {Loopback, "::ffff:127.0.0.1", nil},
		{Loopback, "10.0.0.1", ErrDenied}, {Loopback, "::", ErrDenied}, {Loopback, "0.0.0.0", ErrDenied}, {Loopback, "localhost.example.test", ErrDenied},
		{Loopback, "127.1", ErrDenied}, {Loopback, "2130706433", ErrDenied}, {Loopback, "::ffff:10.0.0.1", ErrDenied}, {Loopback, " ", ErrDenied},
		{Any, "10.0.0.1", nil}, {Any, "example.test", nil}, {Any, strings.Repeat("x", 256), ErrInvalid},
		{Nowhere, "", ErrNowhere}, {Nowhere, "127.0.0.1", ErrNowhere},
	} {
		addresses, err := try.policy.addresses(try.host, 80)
		if !errors.Is(err, try.want) || (err == nil) != (len(addresses) > 0) {
			t.Errorf("%s, %q: %v, %v", try.policy, try.host, addresses, err)
		}
	}
	if _, err := Any.addresses("example.test", 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("port 0: %v", err)
	}
}

// A table refuses connections above its limits, and has room again when some have ended.
func TestLimits(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	room := NewRoom("", "")
	room.open, room.large = make(chan struct{}, 3), make(chan struct{}, 1)
	table := NewTable(context.Background(), room)
	defer table.Close()
	open := func(id string) (*Pipe, error) {
		o, err := table.Open(&wire.PortOpenParams{ConnectionID: id, Port: port})
		if err != nil {
			return nil, err
		}
		return o.Wait(within(t))
	}
	for i, id := range []string{"a", "b", "c", "b"} {
		p, err := open(id)
		if err != nil {
			t.Fatal(err)
		}
		if _, limit := p.State(); limit != Window && i == 0 || limit != MinWindow && i > 0 {
			t.Errorf("%s has the window %d", id, limit)
		}
	}
	if _, err := open("d"); !errors.Is(err, ErrLimit) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := table.Open(&wire.PortOpenParams{ConnectionID: "a", Port: port + 1}); !errors.Is(err, ErrDiffers) {
		t.Errorf("another target: %v", err)
	}
	for _, id := range []string{"", strings.Repeat("x", wire.MaxPortID+1)} {
		if _, err := open(id); !errors.Is(err, ErrInvalid) {
			t.Errorf("an id of %d bytes: %v", len(id), err)
		}
	}
	table.End("a", false)
	table.End("unknown", false)
	for room.Open() == 3 { // its goroutine ends
		if _, err := open("e"); err == nil {
			break
		}
	}
	if table.Find("a") != nil || table.Find("b") == nil {
		t.Error("the wrong connection was ended")
	}
}

// However many connections a client asks for, its listener takes none while the server has no room for them.
func TestListenerWithoutRoom(t *testing.T) {
	t.Parallel()
	room := NewRoom("", Loopback)
	room.open = make(chan struct{}, 2)
	table := NewTable(context.Background(), room)
	defer table.Close()
	at, err := table.Listen(&wire.PortListenParams{ListenerID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	var waiting []*Opening
	ask := func(id string) {
		t.Helper()
		o, err := table.Accept(&wire.PortAcceptParams{ListenerID: "l", ConnectionID: id})
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, o)
		conn, err := Reach(within(t), at.Addresses[0], at.Port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	for _, id := range []string{"a", "b"} {
		ask(id)
		if _, err := waiting[0].Wait(within(t)); err != nil {
			t.Fatal(err)
		}
		waiting = nil
	}
	ask("c")
	ask("d")
	table.Unlisten("l")
	for _, o := range waiting {
		if _, err := o.Wait(within(t)); !errors.Is(err, ErrNoListener) {
			t.Errorf("above the limit: %v", err)
		}
	}
	if n, m := room.Open(), room.Listeners(); n != 2 || m != 0 {
		t.Errorf("%d connections, %d listeners", n, m)
	}
}

// A connection that is closed while it is being opened is not opened.
func TestClosedWhileOpening(t *testing.T) {
	t.Parallel()
	room := NewRoom("", "")
	room.dial = func(ctx context.Context, _ []string) (net.Conn, error) { // of a target that never answers
		<-ctx.Done()
		return nil, ctx.Err()
	}
	table := NewTable(context.Background(), room)
	defer table.Close()
	o, err := table.Open(&wire.PortOpenParams{ConnectionID: "a", Port: 9})
	if err != nil {
		t.Fatal(err)
	}
	table.End("a", true)
	if p, err := o.Wait(within(t)); p != nil || err == nil {
		t.Errorf("%v, %v", p, err)
	}
	received := uint64(0)
	if _, err := table.Open(&wire.PortOpenParams{ConnectionID: "a", Port: 9, Received: &received}); !errors.Is(err, ErrUnknown) {
		t.Errorf("continued: %v", err)
	}
}

// What a socket has sent before it fails reaches the other end, and what waits for it is dropped.
func TestFailedSocket(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	p := NewClientPipe("p", near)
	done := make(chan struct{})
	go func() { // ends with the pipe
		defer close(done)
		p.Run()
	}()
	if err := p.Data(0, []byte("hello"), false); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(far, got); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	p.Failed(errors.New("reset"))
	<-p.Done()
	<-done
	if err := p.Err(); err == nil || err.Error() != "reset" {
		t.Error(err)
	}
	if _, err := far.Read(got); err == nil {
		t.Error("the socket is open")
	}
}

// A resetSocket fails as a TCP socket does that was reset while it was written: only the write reports it, and reading ends.
type resetSocket struct {
	net.Conn
	failed func() bool
}

func (s *resetSocket) Write([]byte) (int, error) { return 0, errors.New("connection reset by peer") }
func (s *resetSocket) Close() error              { return nil }
func (s *resetSocket) Read([]byte) (int, error) {
	for !s.failed() {
		runtime.Gosched()
	}
	return 0, io.EOF
}

// The other end is told that the socket has failed, not that it has ended.
func TestResetIsNoEnd(t *testing.T) {
	t.Parallel()
	socket := &resetSocket{}
	p := NewClientPipe("p", socket)
	socket.failed = func() bool { return p.Err() != nil }
	if err := p.Data(0, []byte("hello"), false); err != nil {
		t.Fatal(err)
	}
	p.Run()
	if p.out.ended || p.Err() == nil {
		t.Errorf("ended: %v, failed: %v", p.out.ended, p.Err())
	}
}
