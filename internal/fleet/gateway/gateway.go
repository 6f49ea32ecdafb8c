package gateway

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/metrics"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

const (
	// maxClients limits the connections of clients, and so the links.
	maxClients = 32768

	// maxPending limits the bytes of frames that have arrived and were not handed to their links, which never takes long.
	maxPending = 1 << 30

	// silence is how long a host may be unreachable before the links to it end.
	silence = 20 * time.Second

	// watchInterval is how often links are compared with the table of hosts, if that does not change.
	watchInterval = time.Second
)

// Config describes a gateway.
type Config struct {
	// Bus is a connection with the inbox prefix fleet.GatewayInbox.
	Bus    *nats.Conn
	Window int          // of links, in bytes; 0: link.DefaultWindow
	Log    *slog.Logger // nil: nothing is logged
}

// A Gateway passes the bytes of clients on to hosts.
type Gateway struct {
	config   Config
	id       string
	log      *slog.Logger
	mux      *link.Mux
	hosts    *directory.Hosts
	leases   *directory.LeaseWriter
	sessions *directory.Sessions

	frames    *nats.Subscription // from hosts
	questions *nats.Subscription // of hosts, whether the gateway is alive

	counts counters

	mu      sync.Mutex
	clients map[*client]struct{} // those with a link
}

// New returns a gateway that can open links.
func New(c Config) (g *Gateway, err error) {
	g = &Gateway{config: c, id: fleet.NewID(), clients: map[*client]struct{}{}}
	g.log = cmp.Or(c.Log, slog.New(slog.DiscardHandler)).With("gateway", g.id)
	g.config.Window = cmp.Or(c.Window, link.DefaultWindow)
	g.mux = link.NewMux(link.Config{Publish: c.Bus.Publish, MaxFrame: c.Bus.MaxPayload, MaxLinks: maxClients, Log: g.log})
	if g.hosts, err = directory.NewHosts(c.Bus, true, g.log); err != nil {
		return nil, err
	}
	if g.leases, err = directory.NewLeaseWriter(c.Bus, g.log); err != nil {
		return nil, err
	}
	if g.sessions, err = directory.NewSessions(c.Bus); err != nil {
		return nil, err
	}
	if g.frames, err = c.Bus.Subscribe(fleet.DownSubjects(g.id), g.receive); err != nil {
		return nil, err
	}
	if err = g.frames.SetPendingLimits(-1, maxPending); err == nil {
		g.questions, err = c.Bus.Subscribe(fleet.AliveSubject(g.id), g.answerAlive)
	}
	if err != nil {
		g.unsubscribe(g.frames)
		return nil, err
	}
	return g, nil
}

// Hosts is the table of hosts, as this gateway knows it.
func (g *Gateway) Hosts() *directory.Hosts { return g.hosts }

func (g *Gateway) unsubscribe(sub *nats.Subscription) {
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		g.log.Debug("unsubscribe", "err", err)
	}
}

// errStopping tells clients to connect again: another gateway serves them. It is not the reason of a server that is being replaced, which
// promises more.
var errStopping = &rpc.CloseError{Code: rpc.CloseRestart, Reason: "the gateway is stopping: connect again"}

// Serve serves clients until ctx ends. Then it tells them to connect again, and returns. It is called once.
func (g *Gateway) Serve(ctx context.Context, l *listen.Listener) error {
	var helpers sync.WaitGroup
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	for _, run := range []func(context.Context) error{g.hosts.Run, g.leases.Run} {
		helpers.Go(func() {
			if err := run(watching); err != nil {
				g.log.Error("the gateway does not learn of hosts", "err", err)
			}
		})
	}
	helpers.Go(func() { g.mux.Run(watching) })
	helpers.Go(func() { g.watch(watching) })
	helpers.Go(func() { g.keepRecords(watching) })
	conns := listen.NewConnections(maxClients, nil, g.log)
	var clients metrics.Set
	conns.Measure(&clients)
	write := func(w io.Writer) {
		clients.Write(w)
		g.writeMetrics(w)
	}
	err := l.Serve(ctx, listen.Handler{
		Serve: g.serve, Stopping: errStopping, Connections: conns, Looking: true, Log: g.log,
		Pages: []listen.Page{listen.Metrics(write), listen.JSONPage(wire.HostsPath, g.hostsPage)}, Ready: g.ready,
	})
	stop()
	g.mux.Close()
	helpers.Wait()
	g.unsubscribe(g.frames)
	g.unsubscribe(g.questions)
	return err
}

// receive takes a frame of a host.
func (g *Gateway) receive(m *nats.Msg) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" { // the answer of NATS to a link that no host could accept
		if s, ok := fleet.ParseLink(m.Subject); ok {
			if l := g.mux.Get(s); l != nil {
				l.Abort(link.Absent, "host "+s.Host+" is not connected to the hub")
			}
		}
		return
	}
	g.mux.Receive(m.Subject, m.Data)
}

// answerAlive tells a host that the gateway is alive, and whether it still has a link.
func (g *Gateway) answerAlive(m *nats.Msg) {
	if !fleet.IsHostInbox(m.Reply) {
		return // an answer anywhere else would let a host publish where it may not
	}
	answer := "alive"
	if len(m.Data) > 0 {
		if s, ok := fleet.ParseLink(string(m.Data)); !ok || g.mux.Get(s) == nil {
			answer = fleet.AnswerGone
		}
	}
	if err := g.config.Bus.Publish(m.Reply, []byte(answer)); err != nil {
		g.log.Debug("a host is not answered", "err", err)
	}
}

// watch ends links to processes that are gone, and finds losses after an interruption of the bus, until ctx ends.
func (g *Gateway) watch(ctx context.Context) {
	status := g.config.Bus.StatusChanged(nats.CONNECTED)
	defer g.config.Bus.RemoveStatusListener(status)
	slow := g.frames.StatusChanged(nats.SubscriptionSlowConsumer)
	for {
		changed := g.hosts.Changed()
		select {
		case _, open := <-slow: // frames were dropped, because too many had arrived
			if !open {
				slow = nil
			}
			g.mux.CheckAll()
		case <-changed:
		case <-time.After(watchInterval):
		case <-status:
			g.mux.CheckAll()
		case <-ctx.Done():
			return
		}
		g.endLost()
	}
}

// endLost ends links to processes that are gone.
func (g *Gateway) endLost() {
	for _, c := range g.linked() {
		host, known := g.hosts.Get(c.link.to.Host)
		switch {
		case known && host.Process != c.link.to.Process:
			c.link.Abort(link.Lost, "another process of host "+c.link.to.Host+" has taken over")
		case !known || host.State == directory.Unreachable && host.Age > silence:
			c.link.Abort(link.Lost, "host "+c.link.to.Host+" is not reachable")
		}
	}
}

// remember notes that a client has a link.
func (g *Gateway) remember(c *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clients[c] = struct{}{}
}

// forget notes that the link of a client has ended.
func (g *Gateway) forget(c *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.clients, c)
}

// linked returns the clients that have a link.
func (g *Gateway) linked() []*client {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*client, 0, len(g.clients))
	for c := range g.clients {
		list = append(list, c)
	}
	return list
}
