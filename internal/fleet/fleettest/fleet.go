// Package fleettest has fleets for tests: a hub, executors and gateways in one process, with real connections on loopback, and relays to
// cut.
package fleettest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/bus"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/executor"
	"github.com/tetherexec/tether/internal/fleet/gateway"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// Patience bounds each wait for an event that must happen. It is long enough for a busy machine.
const Patience = hang.Limit

// A Fleet is a hub, to which hosts and gateways connect. Everything ends with the test.
type Fleet struct {
	Keys *hub.Keys

	t   testing.TB
	log *slog.Logger // of all parts
	dir string
	hub *hub.Hub // nil: it is a cluster

	nodes []*node // of a cluster
	front *Relay  // to its nodes
}

// Start starts a hub.
func Start(t testing.TB) *Fleet {
	t.Helper()
	f := &Fleet{t: t, dir: t.TempDir(), log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	f.openHub("127.0.0.1:0")
	keys, err := hub.OpenKeys(filepath.Join(f.dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	f.Keys = keys
	t.Cleanup(func() { f.hub.Close() })
	f.makeDirectory()
	return f
}

// makeDirectory makes the buckets of the directory, as the first gateway would: a server of NATS that is closed while it makes one
// leaves goroutines.
func (f *Fleet) makeDirectory() {
	f.t.Helper()
	conn := f.Connect(hub.RoleGateway, "maker", "")
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	<-f.hostsOf(conn, true).Loaded()
	sessions, err := directory.NewSessions(conn)
	if err != nil {
		f.t.Fatal(err)
	}
	for !errors.Is(err, directory.ErrNoSession) { // a cluster may have no leader yet
		if ctx.Err() != nil {
			f.t.Fatal(err)
		}
		_, _, err = sessions.TakeOver(ctx, fleet.SessionKey("none"), "", func(d time.Duration) time.Duration { return d })
	}
}

func (f *Fleet) openHub(address string) {
	f.t.Helper()
	h, err := openHub(hub.Config{Dir: f.dir, Listen: address, Log: f.log})
	if err != nil {
		f.t.Fatal(err)
	}
	f.hub = h
}

// RestartHub ends the hub, and starts it again at the same address.
func (f *Fleet) RestartHub() {
	f.t.Helper()
	address := f.hub.Addr().String()
	f.hub.Close()
	f.openHub(address)
}

// HubAddress is where hosts and gateways connect.
func (f *Fleet) HubAddress() string {
	if f.front != nil {
		return f.front.Address()
	}
	return f.hub.Addr().String()
}

// Credentials writes a file with credentials.
func (f *Fleet) Credentials(role hub.Role, name string) (path string) {
	f.t.Helper()
	text, err := f.Keys.Credentials(role, name)
	if err != nil {
		f.t.Fatal(err)
	}
	path = filepath.Join(f.t.TempDir(), name+".creds")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// Connect connects to the hub, through a relay if address is not "". The connection ends with the test.
func (f *Fleet) Connect(role hub.Role, name, address string) *nats.Conn {
	f.t.Helper()
	if address == "" {
		address = f.HubAddress()
	}
	inbox := fleet.GatewayInbox
	if role == hub.RoleHost {
		inbox = fleet.HostInbox(name)
	}
	conn, err := bus.Connect(f.t.Context(), bus.Config{URL: "nats://" + address, Credentials: f.Credentials(role, name), Name: name, Inbox: inbox, Log: f.log})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { closeBus(conn) })
	return conn
}

// closeBus closes a connection, and waits until its goroutines have ended.
func closeBus(conn *nats.Conn) {
	if conn.IsClosed() {
		return
	}
	closed := conn.StatusChanged(nats.CLOSED)
	conn.Close()
	<-closed
}

// Hosts returns the table of hosts, as an operator sees it.
func (f *Fleet) Hosts() *directory.Hosts {
	f.t.Helper()
	return f.hostsOf(f.Connect(hub.RoleOperator, "operator", ""), false)
}

func (f *Fleet) hostsOf(conn *nats.Conn, gateway bool) *directory.Hosts {
	f.t.Helper()
	hosts, err := directory.NewHosts(conn, gateway, f.log)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { // ends with the test
		if err := hosts.Run(ctx); err != nil {
			f.t.Error(err)
		}
	})
	f.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return hosts
}

// Await waits until a condition on the hosts of a fleet holds.
func Await(t testing.TB, hosts *directory.Hosts, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(Patience)
	for {
		changed := hosts.Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("not yet: %s; the hosts are %+v", what, hosts.All())
		}
	}
}

// A HostConfig describes an executor.
type HostConfig struct {
	fleet.Host
	Server        server.Config
	Address       string        // of a relay to the hub; "": the hub's
	ClaimPatience time.Duration // see executor.Config
}

// A Host is an executor.
type Host struct {
	URL    string // of its own listener
	Server *server.Server
	Done   chan error // what the executor has ended with

	*executor.Executor
	bus  *nats.Conn
	stop func()
}

// Stop ends the server, which tells its clients so, and then the executor.
func (h *Host) Stop() { h.stop() }

// Host starts an executor.
func (f *Fleet) Host(c HostConfig) *Host {
	f.t.Helper()
	c.Server.StateDir = f.t.TempDir()
	c.Host.Instance, c.Host.Version, c.Host.Capacity = fleet.NewID(), "test", max(c.Host.Capacity, 1)
	c.Server.Log = cmp.Or(c.Server.Log, f.log.With("server", c.Name))
	srv, err := server.New(c.Server)
	if err != nil {
		f.t.Fatal(err)
	}
	l, err := listen.Open(context.Background(), listen.Config{})
	if err != nil {
		f.t.Fatal(err)
	}
	conn := f.Connect(hub.RoleHost, c.Name, c.Address)
	h := &Host{URL: l.URL, Server: srv, Done: make(chan error, 1), bus: conn}
	h.Executor = executor.New(executor.Config{Bus: conn, Host: c.Host, Server: srv, ClaimPatience: c.ClaimPatience, Log: f.log})
	srv.OnSessionEnd(h.SessionEnded)
	joined, leave := context.WithCancel(context.Background())
	serving, end := context.WithCancel(context.Background())
	var tasks, joining sync.WaitGroup
	joining.Go(func() { h.Done <- h.Run(joined) }) // ends with joined
	tasks.Go(func() {                              // ends with serving
		if err := srv.Serve(serving, l); err != nil {
			f.t.Error(err)
		}
	})
	h.stop = sync.OnceFunc(func() {
		end()
		tasks.Wait()
		leave()
		joining.Wait()
		if err := srv.Close(); err != nil {
			f.t.Error(err)
		}
		closeBus(conn)
	})
	f.t.Cleanup(h.stop)
	return h
}

// A Gateway is a gateway.
type Gateway struct {
	URL   string
	Hosts *directory.Hosts // as the gateway knows them
	bus   *nats.Conn
	stop  func()
}

// Stop ends the gateway in order.
func (g *Gateway) Stop() { g.stop() }

// Gateway starts a gateway. address is that of a relay to the hub; "": the hub's.
func (f *Fleet) Gateway(on listen.Config, address string) *Gateway {
	f.t.Helper()
	conn := f.Connect(hub.RoleGateway, "gateway", address)
	gate, err := gateway.New(gateway.Config{Bus: conn, Log: f.log})
	if err != nil {
		f.t.Fatal(err)
	}
	l, err := listen.Open(context.Background(), on)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { // ends with ctx
		if err := gate.Serve(ctx, l); err != nil {
			f.t.Error(err)
		}
	})
	g := &Gateway{URL: l.URL, Hosts: gate.Hosts(), bus: conn}
	g.stop = sync.OnceFunc(func() {
		cancel()
		serving.Wait()
		closeBus(conn)
	})
	f.t.Cleanup(g.stop)
	return g
}
