package session

import (
	"maps"
	"sync"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/netproxy"
)

// NetworkCounts counts decisions about the network of processes.
type NetworkCounts struct {
	mu     sync.Mutex
	counts map[NetworkOutcome]uint64
}

// A NetworkOutcome is a kind of decision.
type NetworkOutcome struct {
	Allowed  bool
	Protocol netpolicy.Protocol
	Source   netpolicy.Source
}

func (c *NetworkCounts) count(e netproxy.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[NetworkOutcome]uint64{}
	}
	c.counts[NetworkOutcome{e.Decision.Allowed, e.Query.Protocol, e.Decision.Source}]++
}

// All returns the counts.
func (c *NetworkCounts) All() map[NetworkOutcome]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}
