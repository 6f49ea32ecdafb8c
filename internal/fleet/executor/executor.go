package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/wake"
)

const (
	// maxLinks limits the links. Each session has at most one, or for a moment two.
	maxLinks = 8192

	// claimPatience is the default of Config.ClaimPatience.
	claimPatience = fleet.LeaseTime + fleet.BeatInterval

	// claimWait is the time between two attempts to get the name.
	claimWait = time.Second

	// flushTime is how long the hub may take to learn what the executor subscribes to.
	flushTime = 2 * time.Second

	// releaseTime is how long the end of an executor may wait for the hub.
	releaseTime = time.Second

	// maxPending limits the bytes of frames that have arrived and were not handed to their links, which never takes long.
	maxPending = 256 << 20
)

// A Server serves the connections of clients.
type Server interface {
	// ServeStream serves one client until the connection ends. It reports whether the client's session is over.
	ServeStream(ctx context.Context, stream *rpc.WebSocket, from server.Origin) (sessionOver bool)
	// Load is how many sessions there are, and how many of their commands run.
	Load() (sessions, running int)
	// SessionIDs are the ids of all sessions that a client could resume, now or later.
	SessionIDs() []string
	// Sandbox is the backend that confines commands, "none" if they cannot be confined, or "" if that is not known yet.
	Sandbox() string
}

// Config describes an executor.
type Config struct {
	// Bus is a connection with the inbox prefix fleet.HostInbox(Host.Name).
	Bus *nats.Conn
	// Host is what the directory says about the executor. Process, Sessions, Running, Load, Sandbox and Draining are filled in.
	Host   fleet.Host
	Server Server
	// ClaimPatience is how long Run waits for a name that another executor has; 0: for as long as the lease of an executor that was
	// killed may last.
	ClaimPatience time.Duration
	Log           *slog.Logger // nil: nothing is logged
}

// An Executor takes part in a fleet.
type Executor struct {
	config Config
	log    *slog.Logger
	mux    *link.Mux
	tasks  sync.WaitGroup // Run waits for them; grows only under mu, and before over
	early  wake.Signal    // the next beat is due now
	joined chan struct{}  // closed when Run has got the name

	serving context.Context // ends when Run ends
	clients clients
	ended   ended

	mu       sync.Mutex
	lease    *directory.Lease // nil: the name is not this executor's
	sub      *nats.Subscription
	dropped  <-chan nats.SubStatus // frames were dropped, because too many had arrived; nil without sub
	draining bool
	over     bool // no link is served any more
}

// New returns an Executor that does nothing until Run is called.
func New(c Config) *Executor {
	c.Host.Process = fleet.NewID()
	c.ClaimPatience = cmp.Or(c.ClaimPatience, claimPatience)
	e := &Executor{config: c, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)).With("host", c.Host.Name), early: wake.New(), joined: make(chan struct{})}
	e.ended.waiting = wake.New()
	e.mux = link.NewMux(link.Config{Publish: c.Bus.Publish, MaxFrame: c.Bus.MaxPayload, MaxLinks: maxLinks, Accept: e.accept, Log: e.log})
	return e
}

// Run takes part in the fleet until ctx ends. Then it gives the name back, ends all links, and returns nil. If another executor has
// the name from the beginning, Run returns an error. If the hub or all gateways are away, it waits for them.
func (e *Executor) Run(ctx context.Context) error {
	status := e.config.Bus.StatusChanged(nats.CONNECTED)
	defer e.config.Bus.RemoveStatusListener(status)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.serving = serving
	helping, stopHelping := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { e.mux.Run(helping) })
	helpers.Go(func() { e.watchGateways(helping) })
	helpers.Go(func() { e.reportEnded(helping) })
	err := e.claim(ctx)
	if err == nil && ctx.Err() == nil {
		close(e.joined)
	}
	for err == nil && ctx.Err() == nil {
		e.renew(ctx)
		select {
		case <-time.After(fleet.BeatInterval):
		case <-e.early:
		case <-status:
			e.mux.CheckAll()
		case <-e.droppedFrames():
			e.mux.CheckAll()
		case <-ctx.Done():
		}
	}
	stopHelping()
	e.leave()
	stop()
	e.mux.Close()
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.tasks.Wait()
	helpers.Wait()
	e.reportLast()
	return err
}

// reportLast lets gateways remove the records of sessions that have ended with the server. The name need not be this executor's any more.
func (e *Executor) reportLast() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := e.removeRecords(ctx); err != nil {
		e.log.Info("the records of sessions that have ended stay in the directory until the sessions would have expired", "err", err)
	}
}

// begin runs a task that Run waits for. It reports false if Run has ended, or is about to.
func (e *Executor) begin(task func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.tasks.Go(task)
	}
	return !e.over
}

func (e *Executor) droppedFrames() <-chan nats.SubStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped
}

// Drain lets gateways send no new sessions, or lets them again.
func (e *Executor) Drain(on bool) {
	e.mu.Lock()
	e.draining = on
	e.mu.Unlock()
	e.early.Send()
}

// Links is how many links there are, one for each connected client.
func (e *Executor) Links() int { return e.mux.Len() }

// describe is what the directory is told.
func (e *Executor) describe() fleet.Host {
	h := e.config.Host
	h.Sessions, h.Running = e.config.Server.Load()
	h.Load, h.Sandbox = machineLoad(), e.config.Server.Sandbox()
	e.mu.Lock()
	defer e.mu.Unlock()
	h.Draining = e.draining
	return h
}

// claim gets the name, and begins to serve the links of gateways.
func (e *Executor) claim(ctx context.Context) error {
	begin, last := time.Now(), ""
	for {
		err := e.tryClaim(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return nil
		case errors.Is(err, directory.ErrNameTaken) && time.Since(begin) > e.config.ClaimPatience:
			return fmt.Errorf("join the fleet as %s: %w", e.config.Host.Name, err)
		}
		if text := err.Error(); text != last {
			e.log.Warn("not in the fleet yet", "err", err)
			last = text
		}
		select {
		case <-time.After(claimWait):
		case <-ctx.Done():
		}
	}
}

// tryClaim gets the name, if that is possible now. Links are accepted only with the name.
func (e *Executor) tryClaim(ctx context.Context) error {
	h := e.config.Host
	sub, err := e.config.Bus.Subscribe(fleet.UpSubjects(h.Name, h.Process), func(m *nats.Msg) { e.mux.Receive(m.Subject, m.Data) })
	if err != nil {
		return err
	}
	err = sub.SetPendingLimits(-1, maxPending)
	if err == nil {
		err = e.flush(ctx) // a gateway that learns of the host can reach it
	}
	var lease *directory.Lease
	if err == nil {
		lease, err = directory.Claim(ctx, e.config.Bus, e.describe())
	}
	if err != nil {
		return errors.Join(err, sub.Unsubscribe())
	}
	e.log.Info("joined the fleet")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease, e.sub, e.dropped = lease, sub, sub.StatusChanged(nats.SubscriptionSlowConsumer)
	return nil
}

// flush waits until the hub knows the subscriptions.
func (e *Executor) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	return e.config.Bus.FlushWithContext(ctx)
}

// renew renews the lease, or gets it back.
func (e *Executor) renew(ctx context.Context) {
	e.mu.Lock()
	lease := e.lease
	e.mu.Unlock()
	var err error
	if lease == nil {
		err = e.tryClaim(ctx)
	} else {
		err = lease.Renew(ctx, e.describe())
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, directory.ErrNameTaken):
		e.log.Error("another executor has the name: clients of the fleet do not reach this one", "err", err)
		e.lose()
	default:
		e.log.Warn("the fleet does not know that this host is there", "err", err)
	}
}

// lose ends the links, because another executor has the name.
func (e *Executor) lose() {
	e.mu.Lock()
	sub := e.sub
	e.lease, e.sub, e.dropped = nil, nil, nil
	e.mu.Unlock()
	if sub != nil {
		e.unsubscribe(sub)
	}
	e.clients.abortAll(link.Refused, "another executor has the name of this host")
}

// leave gives the name back.
func (e *Executor) leave() {
	h := e.describe()
	e.mu.Lock()
	lease, sub := e.lease, e.sub
	e.lease, e.sub, e.dropped = nil, nil, nil
	e.mu.Unlock()
	if lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := lease.Release(ctx, h); err != nil {
		e.log.Warn("the name stays reserved until its lease ends", "err", err)
	}
	e.unsubscribe(sub)
}

func (e *Executor) unsubscribe(sub *nats.Subscription) {
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		e.log.Debug("unsubscribe", "err", err)
	}
}
