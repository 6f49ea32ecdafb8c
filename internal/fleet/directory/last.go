package directory

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
)

// The lease of a host that is not reachable ends. A gateway then records the last that it has heard of the host, for programs that start
// later, such as `tether hosts`. The record is in the bucket of the leases, and ends when gateways forget the host.

const (
	// recordAfter is how long a host is not heard of before a gateway records it: a little less than fleet.LeaseTime, so that there is a record when
	// the lease ends.
	recordAfter = 13 * time.Second

	// maxRecorded is how many hosts a gateway records one after the other before it looks at the table again.
	maxRecorded = 256
)

// A lastHeard is the record of a host that is not reachable.
type lastHeard struct {
	fleet.Host
	HeardMs int64 `json:"heardMs"` // when it was last heard of; Unix time
}

// decodeLast decodes the record of a host, if an entry is one.
func decodeLast(e entry) (last lastHeard, ok bool) {
	name, is := strings.CutPrefix(e.key, fleet.LastPrefix)
	return last, is && json.Unmarshal(e.value, &last) == nil && last.Check(name) == nil
}

// recordSilent records hosts that are not heard of, until ctx ends.
func (t *Hosts) recordSilent(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, last := range t.silent(time.Now()) {
			if err := t.record(ctx, last); err != nil {
				t.log.Debug("a host that is not reachable is not recorded yet", "host", last.Name, "err", err)
				break
			}
			t.recorded(last)
		}
	}
}

// silent returns hosts that are to be recorded.
func (t *Hosts) silent(now time.Time) (list []lastHeard) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hosts {
		if age := now.Sub(h.heard); age > recordAfter && age < forgetAfter && !h.recorded && len(list) < maxRecorded {
			list = append(list, lastHeard{h.Host, h.heard.UnixMilli()})
		}
	}
	return list
}

// record writes the record of a host, unless another gateway has heard of the host as late and has written it.
func (t *Hosts) record(ctx context.Context, last lastHeard) error {
	key := fleet.LastPrefix + last.Name
	text, err := json.Marshal(last)
	if err != nil {
		return err
	}
	for attempt := range maxLeaseConflicts {
		var e entry
		if e, err = t.leases.get(ctx, key, attempt > 0); err != nil {
			return err
		}
		if before, ok := decodeLast(e); ok && before.HeardMs > last.HeardMs-fleet.BeatInterval.Milliseconds() {
			return nil
		}
		if _, err = t.leases.put(ctx, key, text, e.rev, forgetAfter-recordAfter); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return err // the next tick tries again
}

// recorded notes that a host is recorded, unless it was heard of since.
func (t *Hosts) recorded(last lastHeard) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.hosts[last.Name]; h != nil && h.heard.UnixMilli() == last.HeardMs {
		h.recorded = true
	}
}

// learnLocked puts hosts into the table that have a record and no lease, and removes those that had nothing else and have not even that any
// more.
func (t *Hosts) learnLocked(records map[string]lastHeard, now time.Time) {
	for name, last := range records {
		if t.hosts[name] != nil || len(t.hosts) >= maxHosts {
			continue
		}
		age := min(max(now.Sub(time.UnixMilli(last.HeardMs)), fleet.LeaseTime), forgetAfter) // the clock of the gateway may differ
		t.setLocked(nil, knownHost{Host: last.Host, heard: now.Add(-age), gone: true, last: Unreachable, recorded: true, onlyRecord: true})
		t.notifyLocked()
	}
	for name, h := range t.hosts {
		if _, known := records[name]; h.onlyRecord && !known {
			t.removeLocked(h)
		}
	}
}

// forget removes the record of a host that leaves the fleet.
func (w *LeaseWriter) forget(ctx context.Context, name string) error {
	e, err := w.hosts.get(ctx, fleet.LastPrefix+name, false)
	if err != nil || e.value == nil {
		return err
	}
	_, err = w.hosts.put(ctx, e.key, nil, e.rev, fleet.LeaseTime)
	return err
}
