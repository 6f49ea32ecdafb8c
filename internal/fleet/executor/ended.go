package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/wake"
)

const (
	// maxEnded is how many sessions that have ended wait until a gateway has removed their records. The records of others live until
	// the sessions would have expired.
	maxEnded = 8192

	// endedRetry is the pause after an attempt to tell gateways of them that has failed.
	endedRetry = time.Second
)

// ended are sessions whose records are no longer needed.
type ended struct {
	waiting wake.Signal

	mu   sync.Mutex
	list []string // their keys
}

// add adds a session, unless too many wait.
func (q *ended) add(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) < maxEnded {
		q.list = append(q.list, key)
	}
	q.waiting.Send()
}

// next returns the sessions that one message can tell. They stay in the queue until done is called.
func (q *ended) next() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.list[:min(len(q.list), directory.MaxEnded)])
}

// done removes the oldest n sessions.
func (q *ended) done(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.Delete(q.list, 0, n)
}

// SessionEnded tells the fleet that a session of the server has ended. It may be called with any session, and returns at once.
func (e *Executor) SessionEnded(id string) {
	e.keyEnded(fleet.SessionKey(id))
}

func (e *Executor) keyEnded(key string) {
	if e.clients.over(key, time.Now()) {
		e.ended.add(key)
	}
}

// reportEnded lets gateways remove the records of sessions that have ended, also of those that ended before this process began, until ctx ends.
func (e *Executor) reportEnded(ctx context.Context) {
	select {
	case <-e.joined:
	case <-ctx.Done():
		return
	}
	for next := uint64(1); next > 0 && ctx.Err() == nil; {
		e.keepTrying(ctx, func(ctx context.Context) (err error) {
			next, err = e.reviewRecords(ctx, next)
			return errors.Join(err, e.removeRecords(ctx))
		})
	}
	for ctx.Err() == nil {
		e.keepTrying(ctx, e.removeRecords)
		select {
		case <-e.ended.waiting:
		case <-ctx.Done():
		}
	}
}

// keepTrying does something until it has no error, or ctx ends.
func (e *Executor) keepTrying(ctx context.Context, do func(context.Context) error) {
	for {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		e.log.Debug("the records of sessions that have ended are not removed yet", "err", err)
		select {
		case <-time.After(endedRetry):
		case <-ctx.Done():
		}
	}
}

// removeRecords lets gateways remove the records of all sessions that wait for it.
func (e *Executor) removeRecords(ctx context.Context) error {
	for list := e.ended.next(); len(list) > 0; list = e.ended.next() {
		if err := directory.RemoveEnded(ctx, e.config.Bus, e.describe(), list); err != nil {
			return err
		}
		e.ended.done(len(list))
	}
	return nil
}

// reviewRecords looks at some records with the name of this host, from a number on, and returns where the next ones begin; 0: there are none. An earlier
// process may have left those of sessions that have ended: they are removed. The others are remembered until their sessions end.
func (e *Executor) reviewRecords(ctx context.Context, from uint64) (next uint64, err error) {
	keys, next, err := directory.Records(ctx, e.config.Bus, e.describe(), from)
	if err != nil {
		return from, err
	}
	for _, key := range keys {
		e.clients.recorded(key)
	}
	there := map[string]bool{}
	if len(keys) > 0 { // a session that ends from here on is known to have a record
		for _, id := range e.config.Server.SessionIDs() {
			there[fleet.SessionKey(id)] = true
		}
	}
	for _, key := range keys {
		if !there[key] {
			e.keyEnded(key)
		}
	}
	return next, nil
}
