package gateway

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/rpc"
)

// linked returns the two ends of a link without a bus.
func linked(t *testing.T) (gateway, host *link.Link) {
	t.Helper()
	var muxes [2]*link.Mux
	pass := func(to int) func(string, []byte) error {
		return func(subject string, frame []byte) error {
			muxes[to].Receive(subject, bytes.Clone(frame))
			return nil
		}
	}
	muxes[0] = link.NewMux(link.Config{Publish: pass(1), MaxLinks: 1})
	muxes[1] = link.NewMux(link.Config{Publish: pass(0), MaxLinks: 1, Accept: func(l *link.Link, _ []byte) { host = l }})
	gateway, err := muxes[0].Open(fleet.LinkSubject{Host: "box", Process: "p", Gateway: "g", Link: "l", Up: true}, link.DefaultWindow, nil, pass(1))
	if err != nil {
		t.Fatal(err)
	}
	return gateway, host
}

// A host gets what a client sends as it was sent, whatever the size of the pieces. Nothing above the link would notice a piece that is sent twice: the
// server would end the connection, and the client resume its session.
func TestHostGetsWhatTheClientSends(t *testing.T) {
	toHost, host := linked(t)
	var want []byte
	sizes := []int{1, 4095, 4096, 4097, 3, upSize - 1, upSize, upSize + 1, 8192, 2, 5 * upSize}
	for i, size := range sizes {
		piece := make([]byte, size)
		for at := range piece {
			piece[at] = byte(at*7 + at>>8 + i)
		}
		want = append(want, piece...)
	}
	near, conn := net.Pipe()
	c := &client{gateway: &Gateway{}, stream: rpc.NewWebSocket(conn, nil), conn: conn, log: slog.New(slog.DiscardHandler), link: hostLink{Link: toHost}}
	spliced := make(chan struct{})
	go func() { // ends with the link
		defer close(spliced)
		c.splice(context.Background())
	}()
	go func() { // ends with the connection
		defer near.Close()
		for left := want; len(sizes) > 0; sizes = sizes[1:] {
			if _, err := near.Write(left[:sizes[0]]); err != nil {
				t.Error(err)
			}
			left = left[sizes[0]:]
		}
	}()
	got, err := io.ReadAll(host)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the host gets %d bytes, not the %d that were sent; %v", len(got), len(want), err)
	}
	host.Close()
	<-spliced
}

// A client that reads slowly gets everything up to the end of the link, also if it sends something after that.
func TestLastBytesReachASlowClient(t *testing.T) {
	toHost, host := linked(t)
	var want []byte
	for i := range byte(100) { // more than passDown takes at once
		piece := bytes.Repeat([]byte{i}, 5<<10)
		want = append(want, piece...)
		if _, err := host.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	host.Close()
	slow, conn := net.Pipe()
	c := &client{gateway: &Gateway{}, stream: rpc.NewWebSocket(conn, nil), conn: conn, log: slog.New(slog.DiscardHandler), link: hostLink{Link: toHost}}
	spliced := make(chan struct{})
	go func() { // ends with the connection
		defer close(spliced)
		c.splice(context.Background())
	}()
	slow.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for range 3 {
		slow.Write([]byte("pong")) // the gateway may have stopped to read
	}
	got, err := io.ReadAll(slow)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
	}
	slow.Close()
	<-spliced
}
