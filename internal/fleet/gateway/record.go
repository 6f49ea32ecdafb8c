package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/slots"
)

const (
	// leastTTL is how long a record lives while the client is connected, unless it is renewed. It outlives the death of its
	// gateway by that time.
	leastTTL = time.Hour
	// detachedMargin is how much longer a record lives than the session without a client.
	detachedMargin = time.Minute
	// renewAfter is how old a record of a connected client may become.
	renewAfter = leastTTL / 3
	// recordsInterval is how often records are looked at.
	recordsInterval = time.Minute
	// parallelWrites is how many records are written at a time.
	parallelWrites = 16
	// detachTime is how long the end of a connection may wait for the directory.
	detachTime = 5 * time.Second
)

// attachedTTL is how long a record lives while the client is connected.
func attachedTTL(session time.Duration) time.Duration { return max(leastTTL, 2*session) }

// detachedTTL is how long it lives after the client has left.
func detachedTTL(session time.Duration) time.Duration { return session + detachedMargin }

// A record is the entry of a session in the directory, as this gateway has written it last.
type record struct {
	key string

	mu      sync.Mutex
	session fleet.Session
	rev     uint64
	written time.Time
	removed bool // the session has ended
}

func newRecord(key string, s fleet.Session, rev uint64) *record {
	return &record{key: key, session: s, rev: rev, written: time.Now()}
}

// attach records that a client has a session. It is called once for each link, before the client knows the session.
func (g *Gateway) attach(ctx context.Context, c *client, a fleet.Attached) error {
	switch r := c.record; {
	case r == nil:
	case r.key == a.Session:
		g.mu.Lock()
		defer g.mu.Unlock()
		c.attachedOnce = true
		return nil
	case c.attachedOnce:
		return errors.New("the host has attached another session")
	} // else the host has refused the session, and the client has opened one of its own on the same connection
	s := fleet.Session{Host: c.link.to.Host, Epoch: firstEpoch, Principal: c.from.Principal, TTLMs: a.TTLMs}
	rev, err := g.sessions.Create(ctx, a.Session, s, attachedTTL(s.TTL()))
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c.record, c.attachedOnce = newRecord(a.Session, s, rev), true
	return nil
}

// firstEpoch is the epoch of a new session.
const firstEpoch = 1

// touch writes the record again, so that it lives for another ttl, which depends on how long the session lives without a client. If another
// gateway has written the record meanwhile, perhaps for a connection that has come to nothing, touch lets it live as for a connected client:
// only the gateway that has written it last may let it end sooner.
func (g *Gateway) touch(ctx context.Context, r *record, ttl func(session time.Duration) time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removed {
		return nil
	}
	rev, err := g.sessions.Touch(ctx, r.key, r.session, r.rev, ttl(r.session.TTL()))
	if errors.Is(err, directory.ErrConflict) {
		r.session, rev, err = g.sessions.Keep(ctx, r.key, r.session, attachedTTL(r.session.TTL()))
	}
	switch {
	case errors.Is(err, directory.ErrNoSession):
		r.removed = true
		return nil
	case err != nil:
		return err
	}
	r.rev, r.written = rev, time.Now()
	return nil
}

// detach lets the record of a client that has left end when its session has. If the client has not got the session, another connection
// may have it.
func (g *Gateway) detach(c *client) {
	if !c.attachedOnce {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), detachTime)
	defer cancel()
	if err := g.touch(ctx, c.record, detachedTTL); err != nil {
		g.log.Info("the record of a session lives longer than it should", "err", err)
	}
}

// keepRecords renews the records of connected clients, until ctx ends.
func (g *Gateway) keepRecords(ctx context.Context) {
	tick := time.NewTicker(recordsInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.renewRecords(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (g *Gateway) renewRecords(ctx context.Context) {
	var writing sync.WaitGroup
	free := slots.New(parallelWrites)
	for _, c := range g.linked() {
		g.mu.Lock()
		r, has := c.record, c.attachedOnce
		g.mu.Unlock()
		if !has || !r.isOld() || free.Take(ctx) != nil {
			continue
		}
		writing.Go(func() {
			defer free.Free()
			if err := g.touch(ctx, r, attachedTTL); err != nil {
				g.log.Warn("the record of a session is not renewed", "err", err)
			}
		})
	}
	writing.Wait()
}

func (r *record) isOld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.written) > renewAfter
}
