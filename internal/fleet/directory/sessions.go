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

// ErrNoSession means that the directory does not know a session, or that it belongs to another principal.
var ErrNoSession = errors.New("the fleet does not know the session")

// maxConflicts is how often a gateway tries to take a session over while others do the same.
const maxConflicts = 5

// Sessions are the records of sessions, by fleet.SessionKey.
type Sessions struct{ records *bucket }

// NewSessions returns the records of the sessions of a fleet.
func NewSessions(bus *nats.Conn) (*Sessions, error) {
	b, err := newBucket(bus, fleet.SessionsBucket, true)
	return &Sessions{b}, err
}

// Create records a new session, and returns the revision of the record. The record ends after ttl.
func (s *Sessions) Create(ctx context.Context, key string, v fleet.Session, ttl time.Duration) (rev uint64, err error) {
	return s.put(ctx, key, v, 0, ttl)
}

func (s *Sessions) put(ctx context.Context, key string, v fleet.Session, rev uint64, ttl time.Duration) (uint64, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	return s.records.put(ctx, key, text, rev, ttl)
}

// lookUp returns the record of a session of a principal. With ErrNoSession, the revision is above 0 if the record was removed.
func (s *Sessions) lookUp(ctx context.Context, key, principal string, leader bool) (v fleet.Session, rev uint64, err error) {
	e, err := s.records.get(ctx, key, leader)
	if err == nil && e.value == nil && !leader {
		e, err = s.records.get(ctx, key, true) // it may be new
	}
	switch {
	case err != nil:
		return v, 0, err
	case e.value == nil:
		return v, e.rev, ErrNoSession
	}
	if err := json.Unmarshal(e.value, &v); err != nil {
		return v, 0, fmt.Errorf("the record of the session cannot be read: %w", err)
	}
	if v.Principal != principal {
		return fleet.Session{}, 0, ErrNoSession
	}
	return v, e.rev, nil
}

// TakeOver records that the client of a session has connected again: its epoch grows by one. Of several gateways that do this at the same
// time, each gets another epoch, and the host serves only the newest. The record ends after ttl of what the session lives without a
// client.
func (s *Sessions) TakeOver(ctx context.Context, key, principal string, ttl func(time.Duration) time.Duration) (v fleet.Session, rev uint64, err error) {
	for attempt := range maxConflicts {
		if v, rev, err = s.lookUp(ctx, key, principal, attempt > 0); err != nil {
			return v, 0, err
		}
		v.Epoch++
		if rev, err = s.put(ctx, key, v, rev, ttl(v.TTL())); !errors.Is(err, ErrConflict) {
			return v, rev, err
		}
	}
	return v, 0, &Unavailable{"several connections want the session at the same time"}
}

// Touch writes the record of a session again, so that it ends after ttl from now. ErrConflict means that another gateway has written it,
// or that it has ended.
func (s *Sessions) Touch(ctx context.Context, key string, v fleet.Session, rev uint64, ttl time.Duration) (uint64, error) {
	return s.put(ctx, key, v, rev, ttl)
}

// Keep is Touch of a record whose revision is not known. It returns what is recorded: v, or what another gateway has written. ErrNoSession means
// that the record was removed, because the session has ended.
func (s *Sessions) Keep(ctx context.Context, key string, v fleet.Session, ttl time.Duration) (now fleet.Session, rev uint64, err error) {
	for range maxConflicts {
		now, rev, err = s.lookUp(ctx, key, v.Principal, true)
		if errors.Is(err, ErrNoSession) && rev == 0 {
			now, err = v, nil
		}
		if err != nil {
			return v, 0, err
		}
		if rev, err = s.put(ctx, key, now, rev, ttl); !errors.Is(err, ErrConflict) {
			return now, rev, err
		}
	}
	return v, 0, &Unavailable{"several gateways write the record of the session at the same time"}
}

// removedTime is how long the directory remembers that a record was removed. The gateway of a client that leaves does not write it again then.
const removedTime = time.Minute

// remove removes the record of a session that has ended, if the session was on this host. The epoch does not count: a gateway may have raised it for a
// client that came too late, or has left before the host knew of it.
func (s *Sessions) remove(ctx context.Context, key, host string) error {
	for attempt := range maxConflicts {
		e, err := s.records.get(ctx, key, attempt > 0)
		if err == nil && e.value == nil && attempt == 0 {
			e, err = s.records.get(ctx, key, true) // it may be new
		}
		var v fleet.Session
		switch {
		case err != nil:
			return err
		case e.value == nil, json.Unmarshal(e.value, &v) != nil, v.Host != host:
			return nil
		}
		if _, err = s.records.put(ctx, key, nil, e.rev, removedTime); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return &Unavailable{"gateways write the record of the session all the time"}
}

// page returns the keys of the sessions of a host among the records of one page, and where the next page begins; 0: there is none.
func (s *Sessions) page(ctx context.Context, host string, from uint64) (own []string, next uint64, err error) {
	err = s.records.retry(ctx, func() (err error) {
		own = nil
		next, err = s.records.page(ctx, from, func(e entry) {
			var v fleet.Session
			if json.Unmarshal(e.value, &v) == nil && v.Host == host {
				own = append(own, e.key)
			}
		})
		return err
	})
	return own, next, err
}
