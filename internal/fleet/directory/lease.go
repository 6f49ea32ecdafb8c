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

	// Ended are sessions of the host whose records are to be removed. The lease is not written then, except by older gateways.
	Ended []EndedSession `json:"ended,omitempty"`
}

// An EndedSession is a session that a host does not have any more.
type EndedSession struct {
	Key   string `json:"key"`
	Epoch uint64 `json:"epoch"` // of the newest link that the host has accepted
}

// MaxEnded is how many EndedSessions one message tells.
const MaxEnded = 128

// A leaseAnswer is the answer to it.
type leaseAnswer struct {
	Taken bool   `json:"taken,omitempty"`
	Error string `json:"error,omitempty"`
}

// A Lease is the right of an executor to its name.
type Lease struct{ bus *nats.Conn }

// Claim gets the name h.Name, unless another executor has it. All gateways are told when it has the name, and not before: what they hear last
// is the host to them.
func Claim(ctx context.Context, bus *nats.Conn, h fleet.Host) (*Lease, error) {
	l := &Lease{bus}
	if err := ask(ctx, bus, leaseRequest{Host: h}); err != nil {
		return nil, err
	}
	return l, l.beat(h)
}

// Renew renews the lease, and tells all gateways that the host is reachable. They are told even if the lease cannot be written now.
func (l *Lease) Renew(ctx context.Context, h fleet.Host) error {
	err := ask(ctx, l.bus, leaseRequest{Host: h})
	if errors.Is(err, ErrNameTaken) {
		return err
	}
	return errors.Join(err, l.beat(h))
}

// Release gives the name back, and tells all gateways that the host has left.
func (l *Lease) Release(ctx context.Context, h fleet.Host) error {
	h.Leaving = true
	return errors.Join(l.beat(h), ask(ctx, l.bus, leaseRequest{Host: h, Release: true}))
}

// RemoveEnded lets a gateway remove the records of sessions that the host h had. A record stays if another gateway has written it for a newer
// link meanwhile. After an error it may be called again.
func RemoveEnded(ctx context.Context, bus *nats.Conn, h fleet.Host, sessions []EndedSession) error {
	return ask(ctx, bus, leaseRequest{Host: h, Ended: sessions})
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
func ask(ctx context.Context, bus *nats.Conn, r leaseRequest) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(text) > maxLease {
		return fmt.Errorf("the description of the host has %d bytes: the limit is %d", len(text), maxLease)
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	m, err := bus.RequestWithContext(ctx, fleet.LeaseSubject(r.Host.Name), text)
	if errors.Is(err, nats.ErrNoResponders) {
		return &Unavailable{"no gateway is connected to the hub"}
	}
	if err != nil {
		return &Unavailable{"no gateway answers: " + err.Error()}
	}
	var a leaseAnswer
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return fmt.Errorf("the answer of a gateway cannot be read: %w", err)
	}
	switch {
	case a.Taken:
		return ErrNameTaken
	case a.Error != "":
		return &Unavailable{a.Error}
	}
	return nil
}
