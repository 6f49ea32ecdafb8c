package fleettest

import (
	"context"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/executor"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
)

// Front makes a fleet of one host, a server, behind one gateway, which listens as on says. stop ends the gateway and takes the
// server out of the fleet. It is for tethertest.Front: tests of clients run through a gateway.
func Front(t testing.TB, srv *server.Server, on listen.Config) (url string, stop func()) {
	t.Helper()
	f := Start(t)
	gate := f.Gateway(on, "")
	bus := f.Connect(hub.RoleHost, "box", "")
	e := executor.New(executor.Config{
		Bus: bus, Host: fleet.Host{Name: "box", Instance: fleet.NewID(), Version: "test", Capacity: 1}, Server: srv, Log: f.log,
	})
	own, err := listen.Open(context.Background(), listen.Config{})
	if err != nil {
		t.Fatal(err)
	}
	serving, end := context.WithCancel(context.Background())
	joined, leave := context.WithCancel(context.Background())
	var tasks, joining sync.WaitGroup
	tasks.Go(func() { // ends with serving
		if err := srv.Serve(serving, own); err != nil {
			t.Error(err)
		}
	})
	joining.Go(func() { // ends with joined
		if err := e.Run(joined); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		end() // which tells clients that the server stops
		tasks.Wait()
		leave()
		joining.Wait()
		closeBus(bus)
		gate.Stop()
	})
	t.Cleanup(stop)
	<-gate.Hosts.Loaded() // before that, the gateway refuses clients
	Await(t, gate.Hosts, "the server has joined", func() bool {
		h, known := gate.Hosts.Get("box")
		return known && h.State == directory.Reachable
	})
	return gate.URL, stop
}
