package executor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/slots"
)

const (
	// probeTime is how long a gateway may take to answer whether it has a link.
	probeTime = 250 * time.Millisecond

	// watchInterval is how often each gateway is asked whether it is alive.
	watchInterval = 5 * time.Second
	// maxMissed is how many questions in a row a gateway may leave unanswered.
	maxMissed = 4
	// maxUnheard is the same if the hub says that the gateway is not connected. It may be about to reconnect.
	maxUnheard = 2

	// parallelProbes is how many gateways are asked at a time.
	parallelProbes = 16
)

// isGone reports whether a client is certainly no longer there: its gateway has died, or says that the link has ended.
func (e *Executor) isGone(c *client) bool {
	ctx, cancel := context.WithTimeout(e.serving, probeTime)
	defer cancel()
	answer, err := e.config.Bus.RequestWithContext(ctx, fleet.AliveSubject(c.from.Gateway), []byte(c.from.Back().String()))
	if err != nil {
		return errors.Is(err, nats.ErrNoResponders)
	}
	return string(answer.Data) == fleet.AnswerGone
}

// watchGateways ends the links of gateways that have died, until ctx ends. Their clients have lost their connections.
func (e *Executor) watchGateways(ctx context.Context) {
	missed := map[string]int{}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		e.clients.forget(time.Now())
		groups := e.clients.byGateway()
		for gateway := range missed {
			if groups[gateway] == nil {
				delete(missed, gateway)
			}
		}
		for gateway, penalty := range e.probe(ctx, groups) {
			if penalty == 0 {
				delete(missed, gateway)
				continue
			}
			if missed[gateway] += penalty; missed[gateway] < maxMissed || !e.config.Bus.IsConnected() {
				continue
			}
			e.log.Warn("a gateway does not answer: its clients are disconnected", "gateway", gateway, "clients", len(groups[gateway]))
			for _, c := range groups[gateway] {
				c.link.Abort(link.Lost, "the gateway does not answer")
			}
		}
	}
}

// probe asks each gateway whether it is alive. The result is 0 if it is; else it tells how much that counts towards maxMissed.
func (e *Executor) probe(ctx context.Context, groups map[string][]*client) map[string]int {
	var mu sync.Mutex
	result := map[string]int{}
	var asking sync.WaitGroup
	free := slots.New(parallelProbes)
	for gateway := range groups {
		if free.Take(ctx) != nil {
			break
		}
		asking.Go(func() {
			defer free.Free()
			ctx, cancel := context.WithTimeout(ctx, watchInterval/2)
			defer cancel()
			_, err := e.config.Bus.RequestWithContext(ctx, fleet.AliveSubject(gateway), nil)
			penalty := 0
			switch {
			case errors.Is(err, nats.ErrNoResponders):
				penalty = maxMissed / maxUnheard
			case err != nil:
				penalty = 1
			}
			mu.Lock()
			defer mu.Unlock()
			result[gateway] = penalty
		})
	}
	asking.Wait()
	return result
}
