package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/tethertest/frames"
)

// masked is a frame of a client.
func masked(op byte, fin bool, payload string) []byte {
	return frames.New(op, fin, []byte(payload)).FromClient().Bytes()
}

// reading returns the server's end of a stream whose peer has sent data and
// left.
func reading(data ...[]byte) *WebSocket {
	conn := &scriptedConn{in: bytes.NewReader(bytes.Join(data, nil))}
	return NewWebSocket(conn, nil)
}

// A scriptedConn is a connection whose peer has sent everything and left.
type scriptedConn struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (c *scriptedConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *scriptedConn) Write(p []byte) (int, error) { return c.out.Write(p) }
func (c *scriptedConn) Close() error                { return nil }

func TestMessagesOfAllSizes(t *testing.T) {
	sizes := []int{0, 1, 125, 126, 65535, 65536, maxFrame, maxFrame + 1, MaxMessage}
	a, b := tcpPair(t)
	server, client := NewWebSocket(a, nil), NewWebSocketClient(b, nil)
	for _, way := range []struct {
		name     string
		from, to *WebSocket
	}{{"to the client", server, client}, {"to the server", client, server}} {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%s/%d", way.name, size), func(t *testing.T) {
				want := bytes.Repeat([]byte("tether "), size/7+1)[:size]
				sent := make(chan error, 1)
				go func() {
					if size <= maxFrame {
						mark := []byte("x") // what is in the buffer stays
						buf := way.from.Open(mark, size)
						buf = way.from.Seal(append(buf, want...), len(mark), size)
						if err := way.from.Write(buf[len(mark):]); err != nil {
							sent <- err
							return
						}
					}
					sent <- way.from.WriteMessage(bytes.Clone(want))
				}()
				copies := 1
				if size <= maxFrame {
					copies = 2
				}
				for range copies {
					got, err := way.to.Read()
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, want) {
						t.Fatalf("got %d bytes, which differ", len(got))
					}
				}
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestSealCorrectsTheEstimate(t *testing.T) {
	sizes := []int{0, 125, 126, 65535, 65536}
	for _, client := range []bool{false, true} {
		for _, estimate := range sizes {
			for _, size := range sizes {
				s := newWebSocket(&scriptedConn{}, nil, client)
				want := strings.Repeat("e", size)
				buf := append(make([]byte, 0, 3), "pre"...)
				mark := len(buf)
				buf = s.Seal(append(s.Open(buf, estimate), want...), mark, estimate)
				buf = s.Seal(append(s.Open(buf, 4), "next"...), len(buf), 4)
				if string(buf[:mark]) != "pre" {
					t.Fatalf("the front is %q", buf[:mark])
				}
				in := newWebSocket(&scriptedConn{in: bytes.NewReader(buf[mark:])}, nil, !client)
				for _, want := range []string{want, "next"} {
					got, err := in.Read()
					if err != nil || string(got) != want {
						t.Fatalf("client %v, %d for %d: got %d bytes, %v", client, estimate, size, len(got), err)
					}
				}
			}
		}
	}
}

func TestLargeMessagesLeaveInFragments(t *testing.T) {
	a, b := tcpPair(t)
	server, client := NewWebSocket(a, nil), newPeer(t, b)
	const size = 20 << 20
	sent := make(chan error, 1)
	go func() { sent <- server.WriteMessage(bytes.Repeat([]byte{'f'}, size)) }()
	msg, frames := client.message()
	if len(msg) != size || len(frames) != 3 {
		t.Errorf("%d bytes in frames of %v", len(msg), frames)
	}
	for _, n := range frames {
		if n > 16<<20 {
			t.Errorf("a frame has %d bytes", n)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

func TestFragmentsIn(t *testing.T) {
	s := reading(
		masked(frames.OpText, false, "a\xc3"), // ends inside a character
		masked(frames.OpPing, true, "1"),
		masked(frames.OpContinuation, false, ""),
		masked(frames.OpContinuation, false, "\xa9b"),
		masked(frames.OpPong, true, "2"),
		masked(frames.OpContinuation, true, "c"),
		masked(frames.OpBinary, true, "\xff\xfe"),
	)
	var control []string
	s.OnControl(func(k Control, payload []byte) { control = append(control, fmt.Sprint(k, string(payload))) })
	for _, want := range []string{"aébc", "\xff\xfe"} {
		if got, err := s.Read(); err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if got := strings.Join(control, " "); got != "1 1 2 2" && got != "11 22" {
		t.Errorf("control frames %q", got)
	}
	if _, err := s.Read(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// The mask goes on over the pieces in which a long frame is read.
func TestLongFragments(t *testing.T) {
	first, second := strings.Repeat("f", growStep+1), strings.Repeat("second ", growStep)
	s := reading(masked(frames.OpText, false, first), masked(frames.OpContinuation, true, second))
	if got, err := s.Read(); err != nil || string(got) != first+second {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestBytesBehindTheHandshake(t *testing.T) {
	frame := masked(frames.OpText, true, "hello")
	s := NewWebSocket(&scriptedConn{in: bytes.NewReader(frame[4:])}, frame[:4])
	if got, err := s.Read(); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCutInTheMiddle(t *testing.T) {
	whole := append(masked(frames.OpText, false, "one"), masked(frames.OpContinuation, true, strings.Repeat("x", 200))...)
	for n := range whole {
		_, err := reading(whole[:n]).Read()
		if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[n == 0]; !errors.Is(err, want) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
}

// violations are what a server must not accept, with the close code it says.
var violations = map[string]struct {
	code   uint16
	frames [][]byte
}{
	"unmasked":               {CloseProtocol, [][]byte{frames.Text([]byte("{}")).Bytes()}},
	"reserved bit":           {CloseProtocol, [][]byte{frames.Frame{Fin: true, Reserved: 4, Op: frames.OpText, Masked: true}.Bytes()}},
	"unknown opcode":         {CloseProtocol, [][]byte{masked(3, true, "")}},
	"unknown control":        {CloseProtocol, [][]byte{masked(11, true, "")}},
	"stray continuation":     {CloseProtocol, [][]byte{masked(frames.OpContinuation, true, "x")}},
	"text inside fragments":  {CloseProtocol, [][]byte{masked(frames.OpText, false, "x"), masked(frames.OpText, true, "x")}},
	"fragmented ping":        {CloseProtocol, [][]byte{masked(frames.OpPing, false, "x")}},
	"long ping":              {CloseProtocol, [][]byte{masked(frames.OpPing, true, strings.Repeat("x", 126))}},
	"length with top bit":    {CloseProtocol, [][]byte{{0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}}},
	"close of one byte":      {CloseProtocol, [][]byte{masked(frames.OpClose, true, "\x03")}},
	"close without meaning":  {CloseProtocol, [][]byte{masked(frames.OpClose, true, "\x03\xed")}},
	"invalid UTF-8":          {CloseBadData, [][]byte{masked(frames.OpText, true, "\"\xff\"")}},
	"invalid UTF-8 in parts": {CloseBadData, [][]byte{masked(frames.OpText, false, "\"\xc3"), masked(frames.OpContinuation, true, "\"")}},
	"frame too big":          {CloseTooBig, [][]byte{{0x82, 0xff, 0, 0, 0, 0, 4, 0, 0, 1, 1, 2, 3, 4}}},
	"message too big":        {CloseTooBig, [][]byte{masked(frames.OpText, false, "x"), {0x80, 0xff, 0, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4}}},
}

func TestViolationsEndWithACloseFrame(t *testing.T) {
	for name, v := range violations {
		t.Run(name, func(t *testing.T) {
			a, b := tcpPair(t)
			c, client := serve(t, NewWebSocket(a, nil), echo), newPeer(t, b)
			client.send(`{"id":7,"method":"m","params":1}`)
			if m := client.next(); string(m.Result) != "1" {
				t.Fatalf("answer %+v", m)
			}
			if _, err := b.Write(bytes.Join(v.frames, nil)); err != nil {
				t.Fatal(err)
			}
			code, reason := client.goodbye()
			if code != v.code || reason == "" {
				t.Errorf("close frame %d %q, want %d", code, reason, v.code)
			}
			b.Close()
			why := c.wait(t)
			if e, ok := errors.AsType[*CloseError](why); !ok || e.Code != v.code || IsDisconnect(why) {
				t.Errorf("ended with %v", why)
			}
		})
	}
}

// A client gets the close frame for its mistake even while it is sending.
func TestTooBigClosesWhileThePeerSends(t *testing.T) {
	a, b := tcpPair(t)
	conn := newConn(NewWebSocket(a, nil), echo)
	conn.timers.linger = testTimeout
	c, client := run(t, conn), newPeer(t, b)
	header := binary.BigEndian.AppendUint64([]byte{0x81, 0xff}, MaxMessage+1)
	header = append(header, 1, 2, 3, 4)
	sent := make(chan error, 1)
	go func() {
		_, err := b.Write(append(header, make([]byte, MaxMessage+1)...))
		sent <- err
	}()
	if code, _ := client.goodbye(); code != CloseTooBig {
		t.Errorf("close frame %d", code)
	}
	if err := <-sent; err != nil {
		t.Errorf("the rest of the message was not taken: %v", err)
	}
	b.Close()
	c.wait(t)
}

func TestCloseFrameOfThePeer(t *testing.T) {
	for _, payload := range []string{"", "\x03\xe8", "\x03\xe9moving on"} {
		a, b := tcpPair(t)
		c, client := serve(t, NewWebSocket(a, nil), echo), newPeer(t, b)
		if _, err := b.Write(masked(frames.OpClose, true, payload)); err != nil {
			t.Fatal(err)
		}
		code, reason := client.goodbye()
		want := uint16(CloseNormal)
		if payload != "" {
			want = binary.BigEndian.Uint16([]byte(payload))
		}
		if code != want || reason != "" {
			t.Errorf("%q is answered with %d %q", payload, code, reason)
		}
		if why := c.wait(t); !IsDisconnect(why) || !errors.Is(why, io.EOF) {
			t.Errorf("ended with %v", why)
		}
	}
}

func TestReasonFitsAndIsText(t *testing.T) {
	for _, reason := range []string{"", "short", strings.Repeat("é", 100), "x" + strings.Repeat("é", 100), strings.Repeat("日", 50), "bad \xff" + strings.Repeat("b", 200)} {
		payload := ClosePayload(violation(ClosePolicy, reason))
		text := payload[2:]
		if len(payload) > 125 || !utf8.Valid(text) {
			t.Errorf("%q becomes %q of %d bytes", reason, text, len(payload))
		}
		if utf8.ValidString(reason) && !strings.HasPrefix(reason, string(text)) || len(reason) > 130 && len(text) < closeReasonSize-3 {
			t.Errorf("%q becomes %q", reason, text)
		}
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	promise := []byte{0x81, 0xff, 0, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4, 'x'}
	s := reading(promise)
	n := allocated(func() {
		if _, err := s.Read(); err != io.ErrUnexpectedEOF {
			t.Errorf("got %v", err)
		}
	})
	if n > 4*growStep {
		t.Errorf("a header alone allocates %d bytes", n)
	}
}

func TestTinyFragmentsCostTheirSize(t *testing.T) {
	const count = 100_000
	middle := bytes.Repeat(masked(frames.OpContinuation, false, "x"), count-2)
	s := reading(masked(frames.OpText, false, "x"), middle, masked(frames.OpContinuation, true, "x"))
	n := allocated(func() {
		if msg, err := s.Read(); err != nil || len(msg) != count {
			t.Errorf("got %d bytes, %v", len(msg), err)
		}
	})
	if n > 20*count+4*growStep {
		t.Errorf("%d fragments of one byte allocate %d bytes", count, n)
	}
}
