//go:build unix

package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// connPair returns the two ends of a connection.
func connPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// A streamServer is a server that also serves streams.
type streamServer struct {
	*server.Server
	listener *listen.Listener
	t        *testing.T
	url      string
	stop     context.CancelFunc
	served   chan error
}

func startStreamServer(t *testing.T, cfg server.Config) *streamServer {
	t.Helper()
	cfg.StateDir = t.TempDir()
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.Open(t.Context(), listen.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &streamServer{Server: srv, listener: l, t: t, url: l.URL, served: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.served <- srv.Serve(ctx, l) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A stream is a connection that does not come through the listener.
type stream struct {
	*tethertest.Client
	attached chan string // what Attached was told
	lose     context.CancelFunc
	over     chan bool // what ServeStream returned
}

func (s *streamServer) stream(principal string) *stream {
	s.t.Helper()
	return s.streamOf(listen.Client{Peer: "link", Principal: principal})
}

// streamOf is stream for any client.
func (s *streamServer) streamOf(client listen.Client) *stream {
	s.t.Helper()
	near, far := connPair(s.t)
	c := &stream{attached: make(chan string, 1), over: make(chan bool, 1)}
	var ctx context.Context
	ctx, c.lose = context.WithCancel(context.Background())
	from := server.Origin{Client: client, Attached: func(id string, ttl time.Duration, resumed bool) {
		c.attached <- fmt.Sprint(id, ttl, resumed)
	}}
	go func() { // ends with the connection
		c.over <- s.ServeStream(ctx, rpc.NewWebSocket(far, nil), from)
	}()
	s.t.Cleanup(c.lose)
	c.Client = tethertest.NewClient(s.t, near)
	return c
}

func (s *stream) ended(t *testing.T, over bool, reason string) {
	t.Helper()
	if err := s.Ended(); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("the connection ended with %v", err)
	}
	if got := <-s.over; got != over {
		t.Errorf("the session is over: %v", got)
	}
}

// A server serves streams like connections of its listener. Its caller learns which session a client has, before the client does, and
// whether the session is over.
func TestServeStream(t *testing.T) {
	t.Parallel()
	s := startStreamServer(t, server.Config{SessionTTL: time.Hour})
	a := s.stream("alice")
	hello := a.Handshake("")
	if got := <-a.attached; got != fmt.Sprint(hello.SessionID, time.Hour, false) {
		t.Errorf("attached: %s", got)
	}
	a.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
	if sessions, running := s.Load(); sessions != 1 || running != 1 {
		t.Errorf("%d sessions, %d processes", sessions, running)
	}
	if got := lists(tethertest.Connect(t, s.url)); got != [3]int{1, 0, 0} { // its own
		t.Errorf("a client of the listener sees %v", got)
	}
	a.lose()
	a.ended(t, false, "")

	b := s.stream("alice")
	b.Handshake(hello.SessionID)
	if got := <-b.attached; got != fmt.Sprint(hello.SessionID, time.Hour, true) {
		t.Errorf("attached: %s", got)
	}
	b.Close()
	b.ended(t, false, "")

	refused := s.stream("bob")
	if m := refused.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID}); m.Error == nil {
		t.Errorf("another principal resumes: %s", m.Raw)
	}
	refused.Close()
	refused.ended(t, false, "")
	if len(refused.attached) > 0 {
		t.Errorf("attached: %s", <-refused.attached)
	}

	d := s.stream("alice")
	d.Handshake(hello.SessionID)
	d.Must(wire.MethodSessionEnd, map[string]any{}, nil)
	d.ended(t, true, "")
}

// When the server stops, clients of streams are told that there is nothing to resume, and further ones as well.
func TestServeStreamOfServerThatStops(t *testing.T) {
	t.Parallel()
	s := startStreamServer(t, server.Config{})
	a := s.stream("alice")
	a.Handshake("")
	s.stop()
	a.ended(t, true, wire.ReasonStopping)
	if err := <-s.served; err != nil {
		t.Error(err)
	}
	s.stream("alice").ended(t, false, wire.ReasonStopping)
}

// When another process replaces the server, clients of streams are told to resume, and further ones as well.
func TestServeStreamOfServerThatIsReplaced(t *testing.T) {
	t.Parallel()
	s := startStreamServer(t, server.Config{})
	a := s.stream("alice")
	a.Handshake("")
	s.Drain(10 * time.Second)
	a.ended(t, false, wire.ReasonReplaced)
	if err := <-s.served; !errors.Is(err, server.ErrDrained) {
		t.Error(err)
	}
	s.stream("alice").ended(t, false, wire.ReasonReplaced)
}

// Close ends streams even if the server has never listened.
func TestServeStreamWithoutListener(t *testing.T) {
	t.Parallel()
	srv, err := server.New(server.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	a := (&streamServer{Server: srv, t: t}).stream("")
	a.Handshake("")
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	a.ended(t, true, wire.ReasonStopping)
}
