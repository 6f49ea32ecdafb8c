package directory

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
)

// Drains are the hosts that an operator drains: they get no new sessions.
type Drains struct{ hosts *bucket }

// NewDrains returns the drained hosts of a fleet.
func NewDrains(bus *nats.Conn) (*Drains, error) {
	b, err := newBucket(bus, fleet.DrainsBucket, false)
	return &Drains{b}, err
}

// Set drains a host, or lets it get new sessions again. It holds whether the host is connected or not.
func (d *Drains) Set(ctx context.Context, host string, drain bool) (err error) {
	var value []byte
	if drain {
		value = []byte("drain")
	}
	for attempt := range maxConflicts {
		var e entry
		if e, err = d.hosts.get(ctx, host, attempt > 0); err != nil {
			return err
		}
		if (e.value != nil) == drain {
			return nil
		}
		if _, err = d.hosts.put(ctx, host, value, e.rev, 0); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return err
}
