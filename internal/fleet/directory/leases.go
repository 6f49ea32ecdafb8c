package directory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/slots"
)

const (
	// parallelLeases is how many leases one gateway writes at a time.
	parallelLeases = 64

	// parallelPages is how many pages of records one gateway reads for hosts at a time. Hosts that ask for others meanwhile ask again later: they
	// must not hold up the leases.
	parallelPages = 4

	// maxWaiting is how many requests about leases wait at one gateway. Those above get no answer, and hosts ask again.
	maxWaiting = 4096

	// maxLeaseConflicts is how often a lease is tried to be written while it changes.
	maxLeaseConflicts = 3
)

// A LeaseWriter writes the leases of hosts for them, and shows and removes the records of their sessions.
type LeaseWriter struct {
	bus      *nats.Conn
	hosts    *bucket
	sessions *Sessions
	pages    slots.Slots
	log      *slog.Logger
}

// NewLeaseWriter returns a LeaseWriter that does nothing until Run is called.
func NewLeaseWriter(bus *nats.Conn, log *slog.Logger) (*LeaseWriter, error) {
	b, err := newBucket(bus, fleet.HostsBucket, true)
	if err != nil {
		return nil, err
	}
	sessions, err := NewSessions(bus)
	return &LeaseWriter{bus, b, sessions, slots.New(parallelPages), cmp.Or(log, discard)}, err
}

// Run answers hosts until ctx ends.
func (w *LeaseWriter) Run(ctx context.Context) error {
	requests := make(chan *nats.Msg, maxWaiting)
	sub, err := w.bus.ChanQueueSubscribe(fleet.LeaseSubjects, fleet.LeaseQueue, requests)
	if err != nil {
		return err
	}
	free := slots.New(parallelLeases)
	var writing sync.WaitGroup
	defer writing.Wait()
	for {
		select {
		case m := <-requests:
			if free.Take(ctx) != nil {
				continue
			}
			writing.Go(func() {
				defer free.Free()
				w.answer(ctx, m)
			})
		case <-ctx.Done():
			if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
				return err
			}
			return nil
		}
	}
}

// answer answers a request of a host. NATS lets a host publish only to the subject with its own name, and so change only its own lease.
func (w *LeaseWriter) answer(ctx context.Context, m *nats.Msg) {
	name := fleet.LeaseHost(m.Subject)
	if !strings.HasPrefix(m.Reply, fleet.HostInbox(name)+".") {
		return // an answer anywhere else would let the host publish where it may not
	}
	var a leaseAnswer
	var r leaseRequest
	err := errors.New("the request is too long")
	if len(m.Data) <= maxLease {
		err = json.Unmarshal(m.Data, &r)
	}
	if err == nil {
		err = r.Host.Check(name)
	}
	switch {
	case err != nil:
	case len(r.Ended) > 0:
		err = w.removeEnded(ctx, name, r.Ended)
	case r.RecordsFrom > 0:
		a.Records, a.Next, err = w.records(ctx, name, r.RecordsFrom)
	default:
		err = w.write(ctx, r)
	}
	switch {
	case errors.Is(err, ErrNameTaken):
		a.Taken = true
	case err != nil:
		a.Error = err.Error()
	}
	text, err := json.Marshal(a)
	if err == nil {
		err = w.bus.Publish(m.Reply, text)
	}
	if err != nil {
		w.log.Debug("a host is not answered", "host", name, "err", err)
	}
}

// removeEnded removes the records of sessions that a host had.
func (w *LeaseWriter) removeEnded(ctx context.Context, host string, ended []string) error {
	if len(ended) > MaxEnded {
		return fmt.Errorf("%d sessions are too many for one message", len(ended))
	}
	for _, key := range ended {
		if err := fleet.CheckSessionKey(key); err != nil {
			return err
		}
		if err := w.sessions.remove(ctx, key, host); err != nil {
			return err
		}
	}
	return nil
}

// records returns the keys of some sessions of a host that have records.
func (w *LeaseWriter) records(ctx context.Context, host string, from uint64) ([]string, uint64, error) {
	if !w.pages.TryTake() {
		return nil, 0, errors.New("the gateway reads records for other hosts")
	}
	defer w.pages.Free()
	return w.sessions.page(ctx, host, from)
}

// write writes or deletes a lease, if the name is free or the host's own.
func (w *LeaseWriter) write(ctx context.Context, r leaseRequest) (err error) {
	value, err := json.Marshal(r.Host)
	if err != nil {
		return err
	}
	if r.Release {
		value = nil
	}
	for attempt := range maxLeaseConflicts {
		var e entry
		if e, err = w.hosts.get(ctx, r.Host.Name, attempt > 0); err != nil {
			return err
		}
		var holder fleet.Host
		if e.value != nil && json.Unmarshal(e.value, &holder) == nil && holder.Instance != r.Host.Instance {
			return ErrNameTaken
		}
		if !r.Release || e.value != nil {
			_, err = w.hosts.put(ctx, r.Host.Name, value, e.rev, fleet.LeaseTime)
		}
		if err == nil && r.Release {
			return w.forget(ctx, r.Host.Name)
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return err
}
