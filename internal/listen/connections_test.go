package listen

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
)

// pipeStream returns a stream that does not come from a listener, and its other end.
func pipeStream(t *testing.T) (*rpc.WebSocket, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	return rpc.NewWebSocket(near, nil), far
}

// Connections from elsewhere count like those of the listener, and Serve ends both.
func TestConnectionsFromElsewhere(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	idle := NewIdle(time.Hour, func() bool { return false })
	conns := NewConnections(2, idle, nil)
	stopping := &rpc.CloseError{Code: rpc.CloseGoingAway, Reason: "for today"}
	ctx, cancel := context.WithCancel(context.Background())
	began, returned, served := make(chan context.Context), make(chan struct{}), make(chan error, 1)
	serve := func(serving context.Context) {
		began <- serving
		<-returned
	}
	go func() { // ends with ctx
		served <- l.Serve(ctx, Handler{Connections: conns, Stopping: stopping, Serve: func(serving context.Context, stream *rpc.WebSocket, _ Client) {
			serve(serving)
			stream.Close()
		}})
	}()
	ended := make(chan struct{})
	elsewhere := func() net.Conn {
		stream, far := pipeStream(t)
		go func() { // ends with the connection
			conns.Serve(stream, serve)
			ended <- struct{}{}
		}()
		return far
	}
	elsewhere()
	<-began
	idle.mu.Lock()
	used := idle.connections
	idle.mu.Unlock()
	if used != 1 {
		t.Errorf("%d connections use the server", used)
	}
	upgrade(t, l.Addr().String())
	serving := <-began
	_, answer := upgrade(t, l.Addr().String())
	if code, reason := closeFrame(t, answer); code != int(rpc.CloseTryAgain) || reason != "limit reached: 2 connections" {
		t.Errorf("above the limit: close frame %d %q", code, reason)
	}
	refused := func(want *rpc.CloseError) {
		t.Helper()
		far := elsewhere()
		if code, reason := closeFrame(t, far); code != int(want.Code) || reason != want.Reason {
			t.Errorf("close frame %d %q", code, reason)
		}
		far.Close()
		<-ended
	}
	refused(&rpc.CloseError{Code: rpc.CloseTryAgain, Reason: "limit reached: 2 connections"})

	cancel()
	<-serving.Done()
	if cause := context.Cause(serving); cause != stopping {
		t.Errorf("the connection ends with %v", cause)
	}
	refused(stopping)
	select {
	case err := <-served:
		t.Errorf("Serve returned before its connections: %v", err)
	default:
	}
	close(returned)
	if err := <-served; err != nil {
		t.Error(err)
	}
	<-ended
}
