package listen

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// serveHandler serves on loopback until the test ends, and returns the address.
func serveHandler(t *testing.T, h Handler) string {
	t.Helper()
	l := open(t, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx, h) }() // the cleanup waits for it
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// upgrade opens a WebSocket. The server's messages can be read from the reader.
func upgrade(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n"+upgradeHeaders+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", resp, err)
	}
	return conn, r
}

// closeFrame reads a frame, which must be a close frame, and returns its code and reason.
func closeFrame(t *testing.T, r io.Reader) (code int, reason string) {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		t.Fatal(err)
	}
	if head[0] != 0x88 || head[1] < 2 || head[1] > 125 {
		t.Fatalf("not a close frame: % x", head)
	}
	text := make([]byte, head[1]-2)
	if _, err := io.ReadFull(r, text); err != nil {
		t.Fatal(err)
	}
	return int(head[2])<<8 | int(head[3]), string(text)
}

// A client above the limit is refused. When another client has left, the next one is
// served.
func TestConnectionsAreBounded(t *testing.T) {
	began, ended := make(chan string), make(chan struct{})
	address := serveHandler(t, Handler{
		Connections: NewConnections(1, nil, nil),
		Serve: func(_ context.Context, stream *rpc.WebSocket, client Client) {
			began <- client.Peer
			<-ended
			stream.Close()
		},
		Stopping: &rpc.CloseError{Code: rpc.CloseGoingAway},
	})
	first, r := upgrade(t, address)
	if peer := <-began; peer != first.LocalAddr().String() {
		t.Errorf("served %s, not %s", peer, first.LocalAddr())
	}
	second, answer := upgrade(t, address)
	if code, reason := closeFrame(t, answer); code != int(rpc.CloseTryAgain) || reason != "limit reached: 1 connections" {
		t.Errorf("close frame %d %q", code, reason)
	}
	second.Close()

	ended <- struct{}{}
	io.Copy(io.Discard, r)                          // until the server has closed it
	for deadline := time.Now().Add(hang.Limit); ; { // the server counts the first client, and refused ones, a moment longer
		next, _ := upgrade(t, address)
		select {
		case <-began:
			ended <- struct{}{}
			return
		case <-time.After(10 * time.Millisecond):
			next.Close()
			if time.Now().After(deadline) {
				t.Fatal("no client is served after the first has left")
			}
		}
	}
}

// Serve ends the connections with the reason of the handler, and returns after all of them
// have ended.
func TestServeTellsClientsWhyItStops(t *testing.T) {
	began, returned := make(chan context.Context, 1), make(chan struct{})
	l := open(t, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	stopping := &rpc.CloseError{Code: rpc.CloseGoingAway, Reason: "for today"}
	served := make(chan error, 1)
	go func() { // ends with ctx
		served <- l.Serve(ctx, Handler{Connections: NewConnections(1, nil, nil), Stopping: stopping, Serve: func(ctx context.Context, stream *rpc.WebSocket, _ Client) {
			began <- ctx
			<-ctx.Done()
			<-returned
			stream.Close()
		}})
	}()
	upgrade(t, l.Addr().String())
	serving := <-began
	cancel()
	<-serving.Done()
	if cause := context.Cause(serving); cause != stopping {
		t.Errorf("the connection ends with %v", cause)
	}
	select {
	case err := <-served:
		t.Errorf("Serve returned before its connection: %v", err)
	default:
	}
	close(returned)
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestAccepts(t *testing.T) {
	l := open(t, Config{})
	url := strings.TrimPrefix(l.URL, "ws://")
	_, port, err := net.SplitHostPort(url)
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		url: true, "0.0.0.0:" + port: true, "[::ffff:127.0.0.1]:" + port: true, "127.0.0.1:1": false, "127.0.0.2:" + port: false, "192.0.2.1:" + port: false,
	} {
		at, err := parseAddr(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Accepts(at); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	inProcess, _ := OpenInProcess()
	defer inProcess.Close()
	if at, _ := parseAddr(url); inProcess.Accepts(at) {
		t.Error("a listener without an address accepts one")
	}
}
