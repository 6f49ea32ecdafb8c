package executor

import (
	"context"
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
	list []directory.EndedSession
}

// add adds a session, unless too many wait.
func (q *ended) add(s directory.EndedSession) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) < maxEnded {
		q.list = append(q.list, s)
	}
	q.waiting.Send()
}

// next returns the sessions that one message can tell. They stay in the queue until done is called.
func (q *ended) next() []directory.EndedSession {
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
	if epoch, known := e.clients.over(key, time.Now()); known {
		e.ended.add(directory.EndedSession{Key: key, Epoch: epoch})
	}
}

// reportEnded lets gateways remove the records of sessions that have ended, until ctx ends.
func (e *Executor) reportEnded(ctx context.Context) {
	for {
		select {
		case <-e.ended.waiting:
		case <-ctx.Done():
			return
		}
		for list := e.ended.next(); len(list) > 0; list = e.ended.next() {
			err := directory.RemoveEnded(ctx, e.config.Bus, e.describe(), list)
			if err == nil {
				e.ended.done(len(list))
				continue
			}
			e.log.Debug("the records of sessions that have ended are not removed yet", "err", err)
			select {
			case <-time.After(endedRetry):
			case <-ctx.Done():
				return
			}
		}
	}
}
