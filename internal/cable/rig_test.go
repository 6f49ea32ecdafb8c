package cable_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/websocket"

	"github.com/tetherexec/tether/internal/cable"
)

// testTimeout is how long a test waits for an event.
const testTimeout = hang.Limit

// A rig is a cable with both ends controlled by the test.
type rig struct {
	*cable.Cable
	t    *testing.T
	far  *farEnd
	ctx  context.Context
	seen *recorder
}

// A farEnd is a server that upgrades connections and passes them to the test.
type farEnd struct {
	url     string
	arrived chan *peer
}

// recorder records the messages and events of a cable.
type recorder struct {
	mu       sync.Mutex
	messages []cable.Message
	events   []string
}

func (n *recorder) tap(m cable.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.messages = append(n.messages, m)
}

func (n *recorder) notice(e cable.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e.String())
}

func (n *recorder) saw(event string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.events, event)
}

func lay(t *testing.T) *rig {
	t.Helper()
	return layTo(t, serveFar(t, listenOn(t, "tcp", "127.0.0.1:0"), "ws://"), cable.Config{})
}

func layTo(t *testing.T, far *farEnd, cfg cable.Config) *rig {
	t.Helper()
	r := &rig{t: t, far: far, ctx: timeout(t), seen: new(recorder)}
	if cfg.Target == "" {
		cfg.Target = far.url
	}
	cfg.Tap, cfg.Notice = r.seen.tap, r.seen.notice
	var err error
	if r.Cable, err = cable.Lay(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func listenOn(t *testing.T, network, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func serveFar(t *testing.T, ln net.Listener, scheme string) *farEnd {
	f := &farEnd{url: scheme + ln.Addr().String(), arrived: make(chan *peer, 16)}
	var wg sync.WaitGroup
	wg.Go(func() { // ends with the listener
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.SetDeadline(time.Now().Add(testTimeout))
			if err := frames.Accept(conn); err != nil {
				conn.Close()
				continue
			}
			f.arrived <- newPeer(t, conn, bufio.NewReader(conn), cable.FromServer)
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return f
}

// dial connects through the cable and returns both ends.
func (r *rig) dial() (client, server *peer) {
	r.t.Helper()
	client = dial(r.t, r.URL())
	select {
	case server = <-r.far.arrived:
	case <-r.ctx.Done():
		r.t.Fatal("the connection did not arrive")
	}
	return client, server
}

func dial(t *testing.T, url string) *peer {
	t.Helper()
	p, err := tryDial(t, url, testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tryDial(t *testing.T, server string, limit time.Duration) (*peer, error) {
	network, address := "tcp", strings.TrimPrefix(server, "ws://")
	if path, ok := strings.CutPrefix(server, "unix://"); ok {
		network, address = "unix", path
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	early, err := websocket.Upgrade(ctx, conn, &url.URL{Scheme: "ws", Host: "cable", Path: "/"}, nil)
	if err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(testTimeout))
	in := bufio.NewReader(io.MultiReader(bytes.NewReader(early), conn))
	return newPeer(t, conn, in, cable.FromClient), nil
}

// requestUpgrade connects and requests the upgrade, without waiting for the answer.
func (r *rig) requestUpgrade() *peer {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "ws://"))
	if err != nil {
		r.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(testTimeout))
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if err != nil {
		r.t.Fatal(err)
	}
	return newPeer(r.t, conn, bufio.NewReader(conn), cable.FromClient)
}

// A peer is one end of a connection.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	is   cable.Direction
}

func newPeer(t *testing.T, conn net.Conn, in *bufio.Reader, is cable.Direction) *peer {
	t.Cleanup(func() { conn.Close() })
	return &peer{t, conn, in, is}
}

// send sends texts, each in a frame of its own.
func (p *peer) send(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.frame(frames.Text([]byte(text)))
	}
}

func (p *peer) frame(f frames.Frame) {
	p.t.Helper()
	if p.is == cable.FromClient {
		f = f.FromClient()
	}
	if err := frames.Write(p.conn, f); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// next reads one frame.
func (p *peer) next() frames.Frame {
	p.t.Helper()
	f, err := frames.Read(p.in)
	if err != nil {
		p.t.Fatalf("receive: %v", err)
	}
	if f.Masked == (p.is == cable.FromClient) {
		p.t.Errorf("masked is %v", f.Masked)
	}
	return f
}

// wants reads texts and compares them.
func (p *peer) wants(texts ...string) {
	p.t.Helper()
	for _, want := range texts {
		if got := string(p.next().Payload); got != want {
			p.t.Fatalf("received %.200q, want %.200q", got, want)
		}
	}
}

// ended waits for the end of the connection, and returns how it ended.
func (p *peer) ended() error {
	p.t.Helper()
	f, err := frames.Read(p.in)
	if err == nil {
		p.t.Fatalf("received %.200q, want the end", f.Payload)
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		p.t.Fatal("the connection did not end")
	}
	return err
}

// silent checks that nothing arrives and the connection stays open.
func (p *peer) silent() {
	p.t.Helper()
	p.conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	b, err := p.in.Peek(1)
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		p.t.Fatalf("received %q, %v; want nothing", b, err)
	}
	p.in = bufio.NewReader(p.conn) // a reader keeps its error
	p.conn.SetReadDeadline(time.Now().Add(testTimeout))
}

func (r *rig) await(rule *cable.Rule, n int) {
	r.t.Helper()
	if err := rule.Await(r.ctx, n); err != nil {
		r.t.Fatalf("the rule has acted %d times, want %d: %v", rule.Count(), n, err)
	}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
