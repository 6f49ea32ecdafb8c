package launch

import (
	"maps"
	"sync"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/netproxy"
	"github.com/tetherexec/tether/wire"
)

// NetworkDecisions counts the decisions about the network of commands.
type NetworkDecisions struct {
	mu     sync.Mutex
	counts map[NetworkOutcome]uint64
}

// A NetworkOutcome is a kind of decision.
type NetworkOutcome struct {
	Decision string // allow, deny or ask
	Protocol netpolicy.Protocol
	Source   netpolicy.Source
}

func (d *NetworkDecisions) count(e netproxy.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = map[NetworkOutcome]uint64{}
	}
	d.counts[NetworkOutcome{decisionWord(e), e.Query.Protocol, e.Decision.Source}]++
}

// Counts returns how many decisions of each kind there were.
func (d *NetworkDecisions) Counts() map[NetworkOutcome]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}

// decided counts a decision about the network of a process, and notifies the
// client.
func (l *Launcher) decided(c *Command, e netproxy.Event) {
	process := c.params.ProcessID
	l.config.Decisions.count(e)
	if p := e.Query.Protocol; e.Decision.Source == netpolicy.ModeGuard && (p == netpolicy.HTTP || p == netpolicy.Connect) {
		// The mode is checked last: first the client is notified that the host is
		// allowed.
		host := e
		host.Decision = netpolicy.Decision{Allowed: true, Source: netpolicy.Baseline}
		if e.Asked {
			host.Decision.Source = netpolicy.Decider
		}
		l.owner.Tell(wire.NoteNetworkPolicyDecision, networkNote(process, host))
	}
	note := networkNote(process, e)
	c.hosts.add(e, &note)
	if l.owner.Decided != nil {
		l.owner.Decided(note)
	}
	l.owner.Tell(wire.NoteNetworkPolicyDecision, note)
}

// networkNote is the notification about a decision.
func networkNote(process string, e netproxy.Event) wire.NetworkDecision {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	note := wire.NetworkDecision{
		ProcessID: process, Timestamp: e.Time.UTC().Format("2006-01-02T15:04:05.000Z"),
		Scope: "domain", Decision: decisionWord(e), Source: string(e.Decision.Source), Reason: e.Decision.Reason,
		Protocol: string(e.Query.Protocol), Host: e.Query.Host, Port: e.Query.Port, Method: given(e.Query.Method), Client: given(e.Client),
		TetherRule: given(e.Decision.Rule),
	}
	switch {
	case e.Decision.Source != netpolicy.Baseline && e.Decision.Source != netpolicy.Decider:
		note.Scope = "non_domain"
	case e.Decision.Allowed && e.Asked:
		note.PolicyOverride, note.Reason = true, netpolicy.NotAllowed // as it would be by the rules alone
	case e.Decision.Allowed:
		note.Reason = "allow"
	}
	if e.Address.IsValid() {
		note.TetherAddress = given(e.Address.String())
	}
	return note
}

// decisionWord is the outcome of a decision as it is written on the wire.
func decisionWord(e netproxy.Event) string {
	switch d := e.Decision; {
	case d.Allowed:
		return string(wire.NetworkAllow)
	case d.Open && d.Source == netpolicy.Decider: // the client answered "ask"
		return string(wire.NetworkAsk)
	}
	return string(wire.NetworkDeny)
}
