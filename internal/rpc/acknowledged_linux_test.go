package rpc

import (
	"testing"
	"time"
)

func TestAcknowledged(t *testing.T) {
	a, b := tcpPair(t)
	server, client := NewWebSocket(a, nil), NewWebSocketClient(b, nil)
	before := server.Acknowledged()
	const size = 10_000
	if err := server.WriteMessage(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { _, err := client.Read(); return err },
		func() error { return client.WriteMessage([]byte("got it")) }, // brings the acknowledgement
		func() error { _, err := server.Read(); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.Acknowledged() - before; n < size {
		t.Errorf("%d bytes are acknowledged", n)
	}
	pipe, _ := pipePair(t)
	if n := NewWebSocket(pipe, nil).Acknowledged() + linesOf("").Acknowledged(); n != 0 {
		t.Errorf("%d bytes are acknowledged on a stream that cannot know", n)
	}
}

// A peer that acknowledges bytes but sends nothing is not presumed gone.
func TestProgressIsASignOfLife(t *testing.T) {
	a, b := tcpPair(t)
	c := newConn(NewWebSocket(a, nil), echo)
	before := c.liveness.lastSign()
	client := NewWebSocketClient(b, nil)
	if err := c.stream.WriteMessage(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(); err != nil {
		t.Fatal(err)
	}
	for c.stream.Acknowledged() < 1000 { // the peer's kernel may take a moment
	}
	c.liveness.noteProgress()
	if !c.liveness.lastSign().After(before) {
		t.Error("progress is not noted")
	}
}

// Bytes that the peer does not take are unacknowledged, until it does.
func TestUnacknowledged(t *testing.T) {
	a, b := tcpPair(t)
	server, client := NewWebSocket(a, nil), NewWebSocketClient(b, nil)
	wrote := make(chan error, 1)
	go func() { wrote <- server.WriteMessage(make([]byte, 16<<20)) }()
	for deadline := time.Now().Add(testTimeout); !server.Unacknowledged(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("everything is acknowledged, though nothing was read")
		}
	}
	if _, err := client.Read(); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testTimeout); server.Unacknowledged(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not everything is acknowledged, though everything was read")
		}
	}
}
