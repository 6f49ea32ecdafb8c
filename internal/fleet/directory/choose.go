package directory

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
)

// A Query says which hosts a client accepts.
type Query struct {
	Host   string   // "": any
	Labels []string // all of them; see fleet.Host.HasLabels

	Draining bool // also hosts that are draining
}

// String describes the hosts that match.
func (q Query) String() string {
	var parts []string
	if q.Host != "" {
		parts = append(parts, "the name "+q.Host)
	}
	for _, label := range q.Labels {
		parts = append(parts, "the label "+label)
	}
	return strings.Join(parts, " and ")
}

const (
	// maxCompared is how many hosts Choose compares. If more may match a query, it compares sampleSize random ones of these.
	maxCompared = 512
	// sampleSize is enough that the best of a sample is nearly always among the best tenth of all.
	sampleSize = 64
)

// Choose returns the least loaded host that matches; if very many match, the least loaded of a random sample. If there is none, and another
// attempt may succeed soon, the error is an *Unavailable.
func (t *Hosts) Choose(q Query) (fleet.Host, error) {
	select {
	case <-t.loaded:
	default:
		return fleet.Host{}, &Unavailable{"the hosts of the fleet are not known yet"}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	candidates := t.index.candidates(q.Labels)
	if q.Host != "" {
		candidates = nil
		if h := t.hosts[q.Host]; h != nil {
			candidates = []*knownHost{h}
		}
	}
	c := choice{query: q, now: time.Now()}
	if len(candidates) > maxCompared {
		for tries := 0; tries < maxCompared && c.compared < sampleSize; tries++ {
			c.look(t, candidates[rand.IntN(len(candidates))])
		}
	}
	if c.best == nil { // there are few, or so few of them match and serve clients that a sample has none
		c = choice{query: q, now: c.now}
		for _, h := range candidates {
			c.look(t, h)
		}
	}
	if c.best != nil {
		c.best.assigned++
		return c.best.Host, nil
	}
	return fleet.Host{}, noHost(q, len(t.hosts), c.matching, c.draining)
}

// A choice looks at hosts one after the other, and remembers the best.
type choice struct {
	query Query
	now   time.Time

	best                         *knownHost
	ties                         int // hosts that are as good as best, which is one of them
	matching, draining, compared int
}

// look compares a host with the best so far. The lock of the table is held.
func (c *choice) look(t *Hosts, h *knownHost) {
	if !h.HasLabels(c.query.Labels) {
		return
	}
	c.matching++
	switch state := t.stateLocked(h, c.now); {
	case state == Draining && !c.query.Draining:
		c.draining++
		return
	case state == Unreachable:
		return
	}
	c.compared++
	switch order := compareLoad(h, c.best); {
	case order < 0:
		c.best, c.ties = h, 1
	case order == 0: // each of the hosts that are equally loaded gets the session with the same probability
		if c.ties++; rand.IntN(c.ties) == 0 {
			c.best = h
		}
	}
}

// compareLoad is negative if a is less loaded than b. b may be nil.
func compareLoad(a, b *knownHost) int {
	if b == nil {
		return -1
	}
	// A session that a host has just got will run a command soon. a/b < c/d is computed as a*d < c*b.
	return cmp.Or(
		cmp.Compare((a.Running+a.assigned)*b.Capacity, (b.Running+b.assigned)*a.Capacity),
		cmp.Compare((a.Sessions+a.assigned)*b.Capacity, (b.Sessions+b.assigned)*a.Capacity),
	)
}

// noHost says why no host was chosen.
func noHost(q Query, hosts, matching, draining int) error {
	which := "of the fleet"
	if s := q.String(); s != "" {
		which = "with " + s
	}
	switch {
	case hosts == 0:
		return &Unavailable{"no host has joined the fleet yet"}
	case matching == 0:
		return fmt.Errorf("the fleet has no host %s (`tether hosts` lists them)", which)
	case draining == matching:
		return errors.New("every host " + which + " is draining: it takes no new sessions")
	}
	if draining > 0 {
		which += " that takes new sessions"
	}
	return &Unavailable{"no host " + which + " is reachable now"}
}
