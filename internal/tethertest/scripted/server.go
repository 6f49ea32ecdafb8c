// Package scripted has a server that sends exactly the messages of a test. It is for tests of a client in which the server must act at
// a certain moment, or break the protocol.
package scripted

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/wire"
)

// timeLimit bounds each wait. It is much longer than any test takes.
const timeLimit = hang.Limit

// A Server accepts connections and hands them to the test.
type Server struct {
	t     testing.TB
	ln    net.Listener // nil: its connections are pipes
	lines bool         // messages are lines, not WebSocket frames
	Peers chan *Peer   // accepted, for a test that waits for something else too

	upgrades sync.WaitGroup // of NewPipes
}

// A Peer is the server's end of one connection. Its methods panic when the client does not
// do what the test expects; Play makes that a failure of the test.
type Peer struct {
	Conn  net.Conn
	lines *bufio.Reader // nil: messages are WebSocket frames
}

// NewServer listens on a port of this machine until the end of the test.
func NewServer(t testing.TB) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, ln: ln, Peers: make(chan *Peer, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.SetDeadline(time.Now().Add(timeLimit))
			p, err := NewPeer(conn)
			if err != nil {
				conn.Close()
				continue
			}
			s.Peers <- p
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
		for len(s.Peers) > 0 {
			(<-s.Peers).Cut()
		}
	})
	return s
}

// NewPipes returns a server without a port, for tests with testing/synctest. Its clients connect with Connect.
func NewPipes(t testing.TB) *Server {
	s := &Server{t: t, Peers: make(chan *Peer, 16)}
	t.Cleanup(func() {
		for len(s.Peers) > 0 {
			(<-s.Peers).Cut()
		}
		s.upgrades.Wait()
	})
	return s
}

// NewLines is NewPipes for a client that sends each message as a line, as to the standard input of a server.
func NewLines(t testing.TB) *Server {
	s := NewPipes(t)
	s.lines = true
	return s
}

// Connect makes a connection to a server of NewPipes or NewLines.
func (s *Server) Connect(context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	if s.lines {
		s.Peers <- &Peer{server, bufio.NewReader(server)}
		return client, nil
	}
	s.upgrades.Go(func() {
		if p, err := NewPeer(server); err == nil {
			s.Peers <- p
		} else {
			server.Close()
		}
	})
	return client, nil
}

// NewPeer does the server's part of the WebSocket upgrade on a connection.
func NewPeer(conn net.Conn) (*Peer, error) {
	return &Peer{Conn: conn}, frames.Accept(conn)
}

// Close stops the listener.
func (s *Server) Close() { s.ln.Close() }

// URL returns the address for clients. A server of NewPipes has none and returns a placeholder.
func (s *Server) URL() string {
	if s.ln == nil {
		return "ws://scripted.invalid"
	}
	return "ws://" + s.ln.Addr().String()
}

// Accept waits for a connection.
func (s *Server) Accept() *Peer {
	select {
	case p := <-s.Peers:
		s.t.Cleanup(p.Cut)
		return p
	case <-time.After(timeLimit):
		s.t.Error("no client connects")
		panic("no client connects")
	}
}

// Cut ends the connection without a close frame.
func (p *Peer) Cut() { p.Conn.Close() }

// Leave ends the connection with code 1001.
func (p *Peer) Leave(reason string) {
	frames.Write(p.Conn, frames.Close(1001, reason))
}

// Replaced ends the connection like a server that another process replaces.
func (p *Peer) Replaced() {
	frames.Write(p.Conn, frames.Close(1012, wire.ReasonReplaced))
}

// A Message is a message of the client.
type Message struct {
	ID     *int64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Result json.RawMessage `json:"result"`
}

// Hear returns the next message.
func (p *Peer) Hear() Message {
	m, ok := p.MayHear()
	if !ok {
		panic("the client is gone")
	}
	return m
}

// MayHear returns the next message; false if the connection has ended. It answers pings and a close frame.
func (p *Peer) MayHear() (m Message, ok bool) {
	data, ok := p.next()
	if !ok {
		return m, false
	}
	if err := json.Unmarshal(data, &m); err != nil {
		panic(err)
	}
	return m, true
}

func (p *Peer) next() (data []byte, ok bool) {
	if p.lines != nil {
		data, err := p.lines.ReadBytes('\n')
		return data, err == nil
	}
	for {
		f, err := frames.Read(p.Conn)
		if err != nil {
			return nil, false
		}
		switch f.Op {
		case frames.OpPing:
			frames.Write(p.Conn, frames.Pong(f.Payload))
			continue
		case frames.OpPong:
			continue
		case frames.OpClose:
			f.Masked = false
			frames.Write(p.Conn, f)
			return nil, false
		}
		if data = append(data, f.Payload...); f.Fin {
			return data, true
		}
	}
}

// HearFrame returns the next message or ping of the client. Pings are answered.
func (p *Peer) HearFrame() (m Message, ping bool) {
	f, err := frames.Read(p.Conn)
	if err != nil {
		panic(err)
	}
	switch f.Op {
	case frames.OpPing:
		frames.Write(p.Conn, frames.Pong(f.Payload))
		return m, true
	case frames.OpText:
		if err := json.Unmarshal(f.Payload, &m); err != nil {
			panic(err)
		}
	}
	return m, false
}

// Expect returns the next message, which must have this method; tether/ack is skipped.
func (p *Peer) Expect(method string) Message {
	for {
		m := p.Hear()
		if m.Method == method {
			return m
		}
		if m.Method != "tether/ack" {
			panic(fmt.Sprintf("heard %s %s, expected %s", m.Method, m.Params, method))
		}
	}
}

// Say sends messages as they are. The client may be gone by then.
func (p *Peer) Say(messages ...string) {
	for _, m := range messages {
		if p.lines != nil {
			io.WriteString(p.Conn, m+"\n")
			continue
		}
		frames.Write(p.Conn, frames.Text([]byte(m)))
	}
}

// Serve answers the next message, which must have this method.
func (p *Peer) Serve(method, result string) { p.Say(p.Expect(method).Answer(result)) }

// Answer returns the answer to a request.
func (m Message) Answer(result string) string {
	return fmt.Sprintf(`{"id":%d,"result":%s}`, *m.ID, result)
}

// Refuse returns the error answer to a request.
func (m Message) Refuse(code int, message string) string {
	return fmt.Sprintf(`{"id":%d,"error":{"code":%d,"message":%q}}`, *m.ID, code, message)
}

// Greet does the handshake with this answer to initialize.
func (p *Peer) Greet(hello string) {
	p.Serve("initialize", hello)
	p.Expect("initialized")
}

// Welcome does the handshake of a server without tether's additions.
func (p *Peer) Welcome(session string) { p.Greet(fmt.Sprintf(`{"sessionId":%q}`, session)) }

// WelcomeTether does the handshake of a server that orders requests as tether does and has none of its features.
func (p *Peer) WelcomeTether() { p.Greet(Hello("")) }

// Hello returns the answer to initialize of a tether server with some features.
func Hello(features string) string {
	return fmt.Sprintf(`{"sessionId":"S","tether":{"version":"1","publicId":"p","ttlMs":30000,"features":[%s]}}`, features)
}

// WelcomeWith does the handshake of a server that can make networks, or not, and has
// these features of tether; nil: it is not tether.
func (p *Peer) WelcomeWith(session string, networks bool, features []string) {
	info := wire.EnvironmentInfo{ProviderID: "x", PrependPathDirs: []string{}, TemporaryDirectories: []string{}}
	info.Capabilities.NetworkProxyLaunch = networks
	result := map[string]any{"sessionId": session, "environmentInfo": info}
	if features != nil {
		result["tether"] = wire.TetherInfo{TTLMs: 60_000, Features: features}
	}
	text, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	p.Greet(string(text))
}

// Play runs the server's part of a test beside the client's. The test fails if the part panics or does not end.
func Play(t testing.TB, part func()) (wait func()) {
	t.Helper()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		part()
	}()
	return func() {
		t.Helper()
		select {
		case failure := <-done:
			if failure != nil {
				t.Fatalf("the server's part: %v", failure)
			}
		case <-time.After(timeLimit):
			t.Fatal("the server's part does not end")
		}
	}
}
