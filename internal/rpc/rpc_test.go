package rpc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/tethertest/frames"

	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is how long a test waits for something that must happen.
const testTimeout = hang.Limit

// handlerFuncs is a Handler.
type handlerFuncs struct {
	request      func(*Request)
	notification func(method string, params []byte) error
}

func (h handlerFuncs) Request(r *Request) { h.request(r) }

func (h handlerFuncs) Notification(method string, params []byte) error {
	return h.notification(method, params)
}

// echo answers each request with its parameters.
var echo = handlerFuncs{
	request:      func(r *Request) { r.Reply(r.Params) },
	notification: func(string, []byte) error { return nil },
}

// A served connection runs in the background until the test ends.
type served struct {
	*Conn
	ended chan struct{}
	why   error // when ended is closed
}

func newConn(stream Stream, h Handler) *Conn {
	return New(context.Background(), stream, Config{Handler: h, Log: slog.New(slog.DiscardHandler), ParsePrefix: "no message: "})
}

func serve(t testing.TB, stream Stream, h Handler) *served {
	return run(t, newConn(stream, h))
}

func run(t testing.TB, c *Conn) *served {
	s := &served{Conn: c, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.why = c.Serve()
	}()
	t.Cleanup(func() {
		c.Close(io.ErrClosedPipe)
		<-s.ended
	})
	return s
}

// wait returns why the connection ended.
func (s *served) wait(t testing.TB) error {
	t.Helper()
	select {
	case <-s.ended:
		return s.why
	case <-time.After(testTimeout):
		t.Fatal("the connection does not end")
		return nil
	}
}

// tcpPair returns two ends of a connection over loopback.
func tcpPair(t testing.TB) (server, client net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return closedAtEnd(t, server, client)
}

// pipePair returns two ends of a connection that holds nothing: a write waits
// for its reader.
func pipePair(t testing.TB) (server, client net.Conn) {
	a, b := net.Pipe()
	return closedAtEnd(t, a, b)
}

func closedAtEnd(t testing.TB, server, client net.Conn) (net.Conn, net.Conn) {
	t.Cleanup(func() {
		server.Close()
		client.Close()
	})
	return server, client
}

// A peer speaks WebSocket from the client's side, frame by frame.
type peer struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	out  sync.Mutex
}

func newPeer(t testing.TB, conn net.Conn) *peer {
	return &peer{t: t, conn: conn, in: bufio.NewReader(conn)}
}

func (p *peer) write(f frames.Frame) error {
	p.out.Lock()
	defer p.out.Unlock()
	return frames.Write(p.conn, f.FromClient())
}

func (p *peer) send(text string) {
	p.t.Helper()
	if err := p.write(frames.Text([]byte(text))); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) sendf(format string, args ...any) { p.t.Helper(); p.send(fmt.Sprintf(format, args...)) }

// frame returns the next frame.
func (p *peer) frame() (frames.Frame, error) {
	f, err := frames.Read(p.in)
	if err == nil && f.Masked {
		err = fmt.Errorf("the server masks its frames")
	}
	return f, err
}

// message returns the next message and the sizes of its frames.
func (p *peer) message() (msg []byte, sizes []int) {
	p.t.Helper()
	for {
		f, err := p.frame()
		switch {
		case err != nil:
			p.t.Fatalf("read a frame: %v", err)
		case f.Op == frames.OpClose:
			code, reason := f.CloseCode()
			p.t.Fatalf("close frame %d %q", code, reason)
		case f.Op >= frames.OpClose:
			continue
		case (f.Op == frames.OpText) != (sizes == nil):
			p.t.Fatalf("frame %d of a message has opcode %d", len(sizes), f.Op)
		}
		msg = append(msg, f.Payload...)
		sizes = append(sizes, len(f.Payload))
		if f.Fin {
			return msg, sizes
		}
	}
}

// next returns the next message, parsed.
func (p *peer) next() wire.Message {
	p.t.Helper()
	data, _ := p.message()
	m, err := wire.Parse(data)
	if err != nil {
		p.t.Fatalf("%v in %.200s", err, data)
	}
	return m
}

// goodbye returns the close frame that must come, after which nothing may.
func (p *peer) goodbye() (code uint16, reason string) {
	p.t.Helper()
	for {
		f, err := p.frame()
		if err != nil {
			p.t.Fatalf("no close frame: %v", err)
		}
		if f.Op == frames.OpClose {
			if _, err := p.in.ReadByte(); err != io.EOF {
				p.t.Errorf("after the close frame: %v", err)
			}
			c, reason := f.CloseCode()
			return uint16(c), reason
		}
	}
}
