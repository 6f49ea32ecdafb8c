package executor

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/server"
)

// An unusedServer must serve no client.
type unusedServer struct{ t *testing.T }

func (s unusedServer) ServeStream(context.Context, *rpc.WebSocket, server.Origin) bool {
	s.t.Error("a client is served after the end")
	return false
}
func (unusedServer) Load() (sessions, running int) { return 0, 0 }
func (unusedServer) SessionIDs() []string          { return nil }
func (unusedServer) Sandbox() string               { return "" }

// A link that the bus delivers while the executor ends is not served: no goroutine outlives Run.
func TestLinkAtTheEnd(t *testing.T) {
	bus, err := nats.Connect("nats://127.0.0.1:1", nats.RetryOnFailedConnect(true)) // there is no hub
	if err != nil {
		t.Fatal(err)
	}
	closed := bus.StatusChanged(nats.CLOSED)
	defer func() {
		bus.Close()
		<-closed
	}()
	e := New(Config{Bus: bus, Host: fleet.Host{Name: "box"}, Server: unusedServer{t}})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ended); err != nil {
		t.Fatal(err)
	}
	var late *link.Link
	mux := link.NewMux(link.Config{Publish: func(string, []byte) error { return nil }, MaxLinks: 1, Accept: func(l *link.Link, _ []byte) { late = l }})
	mux.Receive(fleet.LinkSubject{Host: "box", Process: "p", Gateway: "g", Link: "l", Up: true}.String(), []byte{1})
	e.accept(late, []byte("{}"))
	<-late.Done()
	e.tasks.Wait()
}
