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

// Choose returns the least loaded host that matches. If there is none, and another attempt may succeed soon, the error is an *Unavailable.
func (t *Hosts) Choose(q Query) (fleet.Host, error) {
	select {
	case <-t.loaded:
	default:
		return fleet.Host{}, &Unavailable{"the hosts of the fleet are not known yet"}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	var best *knownHost
	matching, draining, ties := 0, 0, 0
	candidates := t.hosts
	if q.Host != "" {
		candidates = map[string]*knownHost{}
		if h := t.hosts[q.Host]; h != nil {
			candidates[q.Host] = h
		}
	}
	for _, h := range candidates {
		if !h.HasLabels(q.Labels) {
			continue
		}
		matching++
		switch state := t.stateLocked(h, now); {
		case state == Draining && !q.Draining:
			draining++
			continue
		case state == Unreachable:
			continue
		}
		switch order := compareLoad(h, best); {
		case order < 0:
			best, ties = h, 1
		case order == 0: // each of the hosts that are equally loaded gets the session with the same probability
			if ties++; rand.IntN(ties) == 0 {
				best = h
			}
		}
	}
	if best != nil {
		best.assigned++
		return best.Host, nil
	}
	return fleet.Host{}, noHost(q, len(t.hosts), matching, draining)
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
