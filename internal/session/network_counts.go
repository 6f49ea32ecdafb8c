package session

import (
	"maps"
	"sync"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/netproxy"
)

// networkCounts counts decisions about the network of processes.
type networkCounts struct {
	mu     sync.Mutex
	counts map[NetworkOutcome]uint64
}

// A NetworkOutcome is a kind of decision.
type NetworkOutcome struct {
	Decision string // allow, deny or ask
	Protocol netpolicy.Protocol
	Source   netpolicy.Source
}

func (c *networkCounts) count(e netproxy.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[NetworkOutcome]uint64{}
	}
	c.counts[NetworkOutcome{decisionWord(e), e.Query.Protocol, e.Decision.Source}]++
}

// NetworkDecisions returns how many decisions of each kind there were.
func (t *Table) NetworkDecisions() map[NetworkOutcome]uint64 {
	c := &t.network
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}
