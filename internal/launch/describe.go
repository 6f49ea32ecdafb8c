package launch

import (
	"maps"
	"slices"
	"sync"

	"github.com/tetherexec/tether/internal/confine/explain"
	"github.com/tetherexec/tether/internal/netproxy"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// Limits of the policy that is kept for descriptions of a command that has exited: the rules can be many.
const (
	keptRules  = 1024
	keptPolicy = 128 << 10 // bytes of a policy that another program has recorded
)

// A boundPolicy is the policy in which a command was started, or its record by another program.
type boundPolicy struct {
	policy  *sandbox.Policy // nil: it is not decoded yet
	encoded []byte
}

// boundPolicy returns the policy in which the command was started; nil: it is not known, or not kept.
func (c *Command) boundPolicy() (*sandbox.Policy, error) {
	bound := c.bound.Load()
	if bound == nil {
		return nil, nil
	}
	if bound.policy != nil {
		return bound.policy, nil
	}
	p, err := sandbox.DecodePolicy(bound.encoded)
	if err == nil {
		c.bound.CompareAndSwap(bound, &boundPolicy{policy: p})
	}
	return p, err
}

// shrink frees a large policy when the command has exited.
func (c *Command) shrink() {
	if b := c.bound.Load(); b != nil && (len(b.encoded) > keptPolicy || b.policy != nil && b.policy.Len() > keptRules) {
		c.bound.Store(nil)
	}
}

// Describe adds to a description what the launcher knows: the sandbox, the network, what has become of them, and the request.
func (c *Command) Describe(d *wire.DescribeResult) {
	p := c.params
	d.Arg0, d.PipeStdin, d.Metadata = p.Arg0, p.PipeStdin, p.Metadata
	d.OneStream, d.KeepNewest = p.OneStream != nil && *p.OneStream, p.KeepNewest != nil && *p.KeepNewest
	policy, err := c.boundPolicy()
	d.Sandbox = wire.SandboxFacts{FullRead: !c.Confined(), FullWrite: !c.Confined(), Readable: []wire.SandboxPlace{}, Writable: []wire.SandboxPlace{}}
	known := err == nil && policy != nil
	switch {
	case !c.Confined():
	case known:
		d.Sandbox = explain.Files(policy, wire.MaxDescribedRules)
	default:
		d.Sandbox.Partial = true
	}
	d.Sandbox.Type = c.SandboxType()
	d.Network = c.describeNetwork(policy)
	d.Text = explain.Text(&d.Sandbox, &d.Network, c.Confined(), known)
	d.Decisions, d.MoreDecisions = c.hosts.list()
	denial := c.Denial()
	d.SandboxDenied, d.TetherDenial = denial.Denied, denial.Fact
	if name := c.ReachedLimit(); name != "" {
		d.TetherLimit = &name
	}
}

func (c *Command) describeNetwork(policy *sandbox.Policy) wire.NetworkFacts {
	n := wire.NetworkFacts{Type: wire.NetworkOfMachine, Allow: []string{}, Deny: []string{}}
	switch {
	case managed(c.params):
		n.Type = wire.NetworkManaged
	case policy != nil && policy.Network == wire.NetworkRestricted:
		n.Type = wire.NetworkOff
	case c.rules != nil:
		n.Type = wire.NetworkByProxy
	}
	if c.rules == nil {
		return n
	}
	proxy := c.params.NetworkProxy
	mode := string(proxy.Proxy.Mode)
	n.Mode, n.Asks = &mode, proxy.PolicyDecisionTimeoutMs != nil
	if proxy.Proxy.Domains == nil {
		return n
	}
	for _, pattern := range slices.Sorted(maps.Keys(*proxy.Proxy.Domains)) {
		to := &n.Allow
		switch (*proxy.Proxy.Domains)[pattern] {
		case wire.DomainNone:
			continue
		case wire.DomainDeny:
			to = &n.Deny
		}
		if len(n.Allow)+len(n.Deny) == wire.MaxDescribedRules {
			n.Partial = true
			break
		}
		*to = append(*to, pattern)
	}
	return n
}

// hostDecisions are the decisions about hosts that a command wanted to reach.
type hostDecisions struct {
	mu    sync.Mutex
	known []wire.HostDecision // at most wire.MaxDescribedHosts
	more  uint64              // decisions that are not among them
}

// add counts a decision.
func (h *hostDecisions) add(e netproxy.Event, note *wire.NetworkDecision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := e.Time.UnixMilli()
	for i := range h.known {
		if d := &h.known[i]; d.Host == note.Host && d.Port == note.Port && d.Protocol == note.Protocol && d.Decision == note.Decision && d.Reason == note.Reason {
			d.Count, d.LastMs = d.Count+1, at
			return
		}
	}
	if len(h.known) == wire.MaxDescribedHosts {
		h.more++
		return
	}
	h.known = append(h.known, wire.HostDecision{
		Host: note.Host, Port: note.Port, Protocol: note.Protocol, Decision: note.Decision, Source: note.Source, Reason: note.Reason,
		Rule: note.TetherRule, Address: note.TetherAddress, Count: 1, FirstMs: at, LastMs: at,
	})
}

func (h *hostDecisions) list() (known []wire.HostDecision, more uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]wire.HostDecision{}, h.known...), h.more
}
