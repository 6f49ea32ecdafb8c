package cable

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// maxHeld limits the messages that one rule holds; further ones pass as if the
	// rule did not exist.
	maxHeld = 1024
	// maxRemembered limits the messages that Rule.Messages returns: the latest.
	maxRemembered = 1024
)

// A Rule is a fault that waits for its message, and the record of the messages that
// it has acted on.
type Rule struct {
	c       *Cable
	from    Direction
	match   Match
	actions []Action
	upgrade Upgrade // for rules of OnUpgrade

	mu      sync.Mutex
	seen    int       // matches
	claimed int       // matches to act on, including those still in progress
	fired   int       // actions that are complete
	met     []Message // messages that it has acted on, the latest
	held    []held
	changed chan struct{} // closed and replaced when the rule has acted
}

// held is a message that a rule holds, as it will be sent.
type held struct {
	line  *line
	frame []byte
}

// On makes a rule: what to do with messages from a direction that match. All rules
// that match a message act on it, in the order in which they were made. A rule
// without actions only counts.
func (c *Cable) On(from Direction, match Match, actions ...Action) *Rule {
	r := &Rule{c: c, from: from, match: match, actions: actions, changed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules = append(slices.Clip(c.rules), r) // the old slice may still be in use
	return r
}

// Remove ends the rule; messages that it holds stay held.
func (r *Rule) Remove() {
	drop := func(rules []*Rule) []*Rule {
		return slices.DeleteFunc(slices.Clone(rules), func(other *Rule) bool { return other == r })
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.rules, r.c.upgrades = drop(r.c.rules), drop(r.c.upgrades)
}

// Count is the number of messages on which the rule acts or has acted. A message is
// counted before anything happens to it, so that a peer that has noticed the effect
// finds it counted. Fired and Await report when an action is complete.
func (r *Rule) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claimed
}

// Messages returns the messages that the rule has acted on, as they were sent; at
// most the latest maxRemembered.
func (r *Rule) Messages() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.met)
}

// Await waits until the rule has acted n times in total: the message was forwarded
// or dropped, the connection is cut.
func (r *Rule) Await(ctx context.Context, n int) error {
	for {
		r.mu.Lock()
		fired, changed := r.fired, r.changed
		r.mu.Unlock()
		if fired >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Fired returns a channel that is closed once the rule has acted for the first
// time.
func (r *Rule) Fired() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fired == 0 {
		return r.changed
	}
	done := make(chan struct{})
	close(done)
	return done
}

// ErrNoLink is returned by Release and Inject when there is no connection.
var ErrNoLink = errors.New("cable: no connection")

// Release sends the held messages after everything that is already queued: on their
// own connection or, if that has ended, on the newest one. If there is none, they
// stay held.
func (r *Rule) Release() error { return r.release(maxHeld) }

// release sends up to n of the held messages, oldest first.
func (r *Rule) release(n int) error {
	r.mu.Lock()
	n = min(n, len(r.held))
	kept := r.held[:n:n]
	r.held = r.held[n:]
	r.mu.Unlock()
	for i, h := range kept {
		to := h.line
		if to.link.isSevered() {
			if to = r.c.newest(to.from); to == nil {
				r.mu.Lock()
				r.held = slices.Concat(kept[i:], r.held)
				r.mu.Unlock()
				return ErrNoLink
			}
		}
		to.inject(h.frame)
	}
	return nil
}

// Held is the number of messages that the rule holds.
func (r *Rule) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}

// keep holds a message. It reports false if there is no room.
func (r *Rule) keep(l *line, frame []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) >= maxHeld {
		return false
	}
	r.held = append(r.held, held{l, frame})
	return true
}

// claims reports whether the rule acts on a message.
func (r *Rule) claims(m *Message) bool {
	if r.from != Either && r.from != m.From || !r.match.accepts(m) {
		return false
	}
	return r.count()
}

// count counts a match and reports whether the rule acts on it.
func (r *Rule) count() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	if !r.match.due(r.seen, r.claimed, r.c.conditions.roll) {
		return false
	}
	r.claimed++
	return true
}

// acted notifies waiters that the rule has acted.
func (r *Rule) acted(m Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fired++
	if len(r.met) >= maxRemembered {
		r.met = slices.Delete(r.met, 0, 1)
	}
	r.met = append(r.met, m)
	close(r.changed)
	r.changed = make(chan struct{})
}

// An effect is the combined effect of all rules on one message.
type effect struct {
	rules         []*Rule // that act on it
	fate          string
	before, after []func(*link)
	drop          bool
	copies        int      // in addition to the first
	content       []byte   // replaces the message, unless nil
	precede       [][]byte // messages to send before it
	follow        [][]byte // messages to send after it
	behind        int      // number of messages to let pass first
	delay         time.Duration
	hold          *Rule
	holdFor       time.Duration // 0: until released
	mute          bool          // nothing more is forwarded after it
}

// judge applies the rules to a message.
func (c *Cable) judge(m *Message) (v effect) {
	c.mu.Lock()
	rules := c.rules
	c.mu.Unlock()
	for _, r := range rules {
		if !r.claims(m) {
			continue
		}
		v.rules = append(v.rules, r)
		for _, a := range r.actions {
			a.apply(&v, r, m)
			if v.fate != "" {
				v.fate += ", "
			}
			v.fate += a.name
		}
	}
	if v.fate == "" {
		v.fate = Forwarded
	}
	return v
}

// Forwarded is the Fate of a message on which no rule has acted.
const Forwarded = "forwarded"
