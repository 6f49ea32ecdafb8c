package directory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
)

const (
	// maxHosts limits the table. Hosts above it are not known here.
	maxHosts = 200_000

	// forgetAfter is how long a host that is not reachable stays in the table and in the directory.
	forgetAfter = 24 * time.Hour

	// lookInterval is how often the table looks for hosts that are no longer reachable.
	lookInterval = time.Second

	// reloadInterval is how often the table is compared with the buckets, in case that messages were lost.
	reloadInterval = 30 * time.Second

	// reloadAfterFailure is the same after a failure.
	reloadAfterFailure = time.Second

	// maxPending is how many messages wait to be put into the table.
	maxPending = 65536
)

var discard = slog.New(slog.DiscardHandler)

// A State says whether a host serves clients.
type State string

// States of hosts.
const (
	Reachable   State = "reachable"
	Draining    State = "draining"    // reachable, and gets no new sessions
	Unreachable State = "unreachable" // not heard of for fleet.LeaseTime, or it did not answer
)

// A HostState is a host as this table knows it.
type HostState struct {
	fleet.Host
	State State
	Age   time.Duration // since the host was last heard of
}

// Hosts is the table of the hosts of a fleet.
type Hosts struct {
	bus    *nats.Conn
	leases *bucket
	drains *bucket
	log    *slog.Logger
	loaded chan struct{} // closed when the table was loaded

	mu      sync.Mutex
	hosts   map[string]*knownHost
	index   index           // of hosts
	drained map[string]bool // by operators
	changed chan struct{}   // closed by the next change; nil: no goroutine waits
}

// A knownHost is a row of the table.
type knownHost struct {
	fleet.Host
	heard    time.Time
	gone     bool // it did not answer since then
	last     State
	assigned int // sessions that Choose has given it since its last beat

	recorded   bool // the directory has a record of it; see lastHeard
	onlyRecord bool // it is known from such a record
}

// NewHosts returns an empty table. Run fills it. A gateway makes the buckets, if there are none; an operator may not.
func NewHosts(bus *nats.Conn, gateway bool, log *slog.Logger) (*Hosts, error) {
	leases, err := newBucket(bus, fleet.HostsBucket, gateway)
	if err != nil {
		return nil, err
	}
	drains, err := newBucket(bus, fleet.DrainsBucket, gateway)
	return &Hosts{
		bus: bus, leases: leases, drains: drains, log: cmp.Or(log, discard),
		loaded: make(chan struct{}), hosts: map[string]*knownHost{}, drained: map[string]bool{},
	}, err
}

// Run keeps the table up to date until ctx ends.
func (t *Hosts) Run(ctx context.Context) error {
	messages := make(chan *nats.Msg, maxPending)
	for _, subject := range []string{fleet.BeatSubjects, fleet.KeySubject(fleet.DrainsBucket, "*")} {
		sub, err := t.bus.ChanSubscribe(subject, messages)
		if err != nil {
			return err
		}
		defer func() {
			if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
				t.log.Debug("unsubscribe", "err", err)
			}
		}()
	}
	if t.leases.mayMake {
		helping, stop := context.WithCancel(ctx)
		var helper sync.WaitGroup
		defer helper.Wait()
		defer stop()
		helper.Go(func() { t.recordSilent(helping) })
	}
	status := t.bus.StatusChanged(nats.CONNECTED)
	defer t.bus.RemoveStatusListener(status)
	reload := time.NewTimer(0)
	defer reload.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	failed := "" // why the last load failed
	for {
		select {
		case m := <-messages:
			t.receive(m)
		case <-look.C:
			t.look(time.Now())
		case <-status:
			reload.Reset(0)
		case <-reload.C:
			next := reloadInterval
			err := t.load(ctx)
			if err != nil && ctx.Err() == nil {
				next = reloadAfterFailure
				if failed != err.Error() {
					t.log.Warn("the hosts of the fleet are not known", "err", err)
					failed = err.Error()
				}
			}
			reload.Reset(next)
		case <-ctx.Done():
			return nil
		}
	}
}

// Loaded is closed when the table knows the hosts that there were when Run began.
func (t *Hosts) Loaded() <-chan struct{} { return t.loaded }

// receive takes a beat, or a change of the drained hosts.
func (t *Hosts) receive(m *nats.Msg) {
	if name, drain := strings.CutPrefix(m.Subject, fleet.KeySubject(fleet.DrainsBucket, "")); drain {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.setDrainedLocked(name, !isDeleted(m.Header))
		return
	}
	var h fleet.Host
	if len(m.Data) > maxLease || json.Unmarshal(m.Data, &h) != nil || h.Check(fleet.BeatHost(m.Subject)) != nil {
		t.log.Debug("a beat that cannot be read", "subject", m.Subject)
		return
	}
	t.hear(h, true)
}

func (t *Hosts) setDrainedLocked(name string, drained bool) {
	if t.drained[name] == drained {
		return
	}
	if drained {
		t.drained[name] = true
	} else {
		delete(t.drained, name)
	}
	if h := t.hosts[name]; h != nil {
		h.last = t.stateLocked(h, time.Now())
	}
	t.notifyLocked()
}

// hear takes what a host says about itself; beat: now, else with its lease.
func (t *Hosts) hear(h fleet.Host, beat bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.hosts[h.Name]
	switch {
	case h.Leaving:
		if old != nil && old.Instance == h.Instance && old.Process == h.Process {
			t.removeLocked(old)
		}
		return
	case old != nil && !beat && !old.onlyRecord: // beats are newer than the lease
		return
	case old == nil && len(t.hosts) >= maxHosts:
		return
	}
	now := time.Now()
	k := knownHost{Host: h, heard: now}
	k.last = t.stateLocked(&k, now)
	if old == nil || old.last != k.last || old.Process != k.Process {
		t.notifyLocked()
	}
	t.setLocked(old, k)
}

// setLocked replaces a row of the table; old is nil if there is none.
func (t *Hosts) setLocked(old *knownHost, k knownHost) {
	if old == nil {
		t.hosts[k.Name] = &k
		t.index.add(&k)
		return
	}
	relabel := !slices.Equal(old.Labels, k.Labels)
	if relabel {
		t.index.unlabel(old)
	}
	*old = k
	if relabel {
		t.index.label(old)
	}
}

func (t *Hosts) removeLocked(h *knownHost) {
	delete(t.hosts, h.Name)
	t.index.remove(h)
	t.notifyLocked()
}

// load reads the leases and the drained hosts.
func (t *Hosts) load(ctx context.Context) error {
	drained := map[string]bool{}
	if err := t.drains.each(ctx, func(e entry) { drained[e.key] = true }); err != nil {
		return err
	}
	records := map[string]lastHeard{}
	err := t.leases.each(ctx, func(e entry) {
		if last, ok := decodeLast(e); ok {
			records[last.Name] = last
			return
		}
		var h fleet.Host
		if json.Unmarshal(e.value, &h) == nil && h.Check(e.key) == nil {
			t.hear(h, false)
		}
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learnLocked(records, time.Now())
	for name := range t.drained {
		t.setDrainedLocked(name, drained[name])
	}
	for name := range drained {
		t.setDrainedLocked(name, true)
	}
	select {
	case <-t.loaded:
	default:
		close(t.loaded)
	}
	return nil
}

// look finds hosts whose state has changed because of the time.
func (t *Hosts) look(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hosts {
		if now.Sub(h.heard) > forgetAfter {
			t.removeLocked(h)
			continue
		}
		if state := t.stateLocked(h, now); state != h.last {
			h.last = state
			t.notifyLocked()
		}
	}
}

func (t *Hosts) stateLocked(h *knownHost, now time.Time) State {
	switch {
	case h.gone || now.Sub(h.heard) > fleet.LeaseTime:
		return Unreachable
	case h.Host.Draining || t.drained[h.Name]:
		return Draining
	}
	return Reachable
}

func (t *Hosts) notifyLocked() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Changed returns a channel that is closed when a host comes or goes, or changes its state or its process. How busy hosts are
// changes without it.
func (t *Hosts) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// MarkGone notes that a host did not answer. It counts as unreachable until it is heard of again.
func (t *Hosts) MarkGone(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.hosts[name]; h != nil && !h.gone {
		h.gone, h.last = true, Unreachable
		t.notifyLocked()
	}
}

// Get returns a host.
func (t *Hosts) Get(name string) (HostState, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[name]
	if h == nil {
		return HostState{}, false
	}
	return t.describeLocked(h, time.Now()), true
}

func (t *Hosts) describeLocked(h *knownHost, now time.Time) HostState {
	return HostState{h.Host, t.stateLocked(h, now), now.Sub(h.heard)}
}

// All returns all hosts, in the order of their names.
func (t *Hosts) All() []HostState {
	t.mu.Lock()
	now := time.Now()
	list := make([]HostState, 0, len(t.hosts))
	for _, h := range t.hosts {
		list = append(list, t.describeLocked(h, now))
	}
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b HostState) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
