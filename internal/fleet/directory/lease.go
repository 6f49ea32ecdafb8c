package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
)

// ErrNameTaken means that another executor has the name of a host.
var ErrNameTaken = errors.New("another executor has joined the fleet with this name")

// leaseTime limits one request about a lease.
const leaseTime = 2 * time.Second

// maxLease is the longest message about a lease, and the longest beat.
const maxLease = 32 << 10

// A leaseRequest asks gateways to write the lease of a host.
type leaseRequest struct {
	Host    fleet.Host `json:"host"`
	Release bool       `json:"release,omitempty"` // the host gives its name back

	// Ended are the keys of sessions of the host whose records are to be removed. RecordsFrom asks for the records of its sessions from this
	// number on; 0: it does not. With either, the lease is not written.
	Ended       []string `json:"ended,omitempty"`
	RecordsFrom uint64   `json:"recordsFrom,omitempty"`
}

// MaxEnded is how many sessions that have ended one message tells.
const MaxEnded = 128

// A leaseAnswer is the answer to it.
type leaseAnswer struct {
	Taken bool   `json:"taken,omitempty"`
	Error string `json:"error,omitempty"`

	Records []string `json:"records,omitempty"` // keys of sessions of the host
	Next    uint64   `json:"next,omitempty"`    // where the next ones begin; 0: there are none
}

// A Lease is the right of an executor to its name.
type Lease struct{ bus *nats.Conn }

// Claim gets the name h.Name, unless another executor has it. All gateways are told when it has the name, and not before: what they hear last
// is the host to them.
func Claim(ctx context.Context, bus *nats.Conn, h fleet.Host) (*Lease, error) {
	l := &Lease{bus}
	if _, err := ask(ctx, bus, leaseRequest{Host: h}); err != nil {
		return nil, err
	}
	return l, l.beat(h)
}

// Renew renews the lease, and tells all gateways that the host is reachable. They are told even if the lease cannot be written now.
func (l *Lease) Renew(ctx context.Context, h fleet.Host) error {
	_, err := ask(ctx, l.bus, leaseRequest{Host: h})
	if errors.Is(err, ErrNameTaken) {
		return err
	}
	return errors.Join(err, l.beat(h))
}

// Release gives the name back, and tells all gateways that the host has left.
func (l *Lease) Release(ctx context.Context, h fleet.Host) error {
	h.Leaving = true
	err := l.beat(h)
	_, released := ask(ctx, l.bus, leaseRequest{Host: h, Release: true})
	return errors.Join(err, released)
}

// RemoveEnded lets a gateway remove the records of sessions that the host h had, by their keys. After an error it may be called again.
func RemoveEnded(ctx context.Context, bus *nats.Conn, h fleet.Host, keys []string) error {
	_, err := ask(ctx, bus, leaseRequest{Host: h, Ended: keys})
	return err
}

// Records returns the keys of some sessions of the host h that have records, from a number on; the first is 1. next is where the following
// ones begin; 0: there are none.
func Records(ctx context.Context, bus *nats.Conn, h fleet.Host, from uint64) (keys []string, next uint64, err error) {
	a, err := ask(ctx, bus, leaseRequest{Host: h, RecordsFrom: from})
	return a.Records, a.Next, err
}

// beat tells all gateways how the host is.
func (l *Lease) beat(h fleet.Host) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return l.bus.Publish(fleet.BeatSubject(h.Name), text)
}

// ask sends a request of a host to one of the gateways.
func ask(ctx context.Context, bus *nats.Conn, r leaseRequest) (a leaseAnswer, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	if len(text) > maxLease {
		return a, fmt.Errorf("the description of the host has %d bytes: the limit is %d", len(text), maxLease)
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	m, err := bus.RequestWithContext(ctx, fleet.LeaseSubject(r.Host.Name), text)
	if errors.Is(err, nats.ErrNoResponders) {
		return a, &Unavailable{"no gateway is connected to the hub"}
	}
	if err != nil {
		return a, &Unavailable{"no gateway answers: " + err.Error()}
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return a, fmt.Errorf("the answer of a gateway cannot be read: %w", err)
	}
	switch {
	case a.Taken:
		return a, ErrNameTaken
	case a.Error != "":
		return a, &Unavailable{a.Error}
	}
	return a, nil
}
