package client

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/client/internal/inbox"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// A Network is what a command may reach. It has a network of its own, whose only way
// out is a proxy that the server makes for it: programs find it in the usual variables
// (HTTP_PROXY and its like), and those that do not look there reach nothing. The zero
// value allows no host.
//
// A pattern is a name or an address (example.com, 192.0.2.7, [2001:db8::1]), all names
// below one (*.example.com), or these and the name itself (**.example.com). On servers
// with FeatureHostPorts it may end in a port: *.example.com:443.
type Network struct {
	Allow []string // patterns of hosts that may be reached
	Deny  []string // and of those that may not, even if Allow has them

	// Mode narrows what may be asked of hosts; empty: nothing is narrowed.
	Mode wire.NetworkMode

	// AllowLocal makes private and local addresses hosts like others. Without it, an
	// address of that kind must be allowed by itself, and a name that leads to one is
	// refused. That is how it stays for what no service of one's own should have, such as
	// link-local addresses.
	AllowLocal bool

	// Direct goes past the proxies that the server itself was told to use.
	Direct bool

	// Ask, if not 0, puts hosts that no pattern matches to [Options.NetworkPolicy],
	// which has this long to answer. Else they are refused.
	Ask time.Duration

	// OnDecision, if set, is told what [Options.OnNetworkDecision] is, for this command
	// alone and until its end.
	OnDecision func(wire.NetworkDecision)
}

// ask puts the network into a start. Without a sandbox the command has none for its
// files, but one is needed to hold the network.
func (n *Network) ask(p *wire.StartParams) {
	domains := make(wire.DomainRules, len(n.Allow)+len(n.Deny))
	for _, pattern := range n.Allow {
		domains[pattern] = wire.DomainAllow
	}
	for _, pattern := range n.Deny {
		domains[pattern] = wire.DomainDeny
	}
	mode := n.Mode
	if mode == "" {
		mode = wire.NetworkModeFull
	}
	ports := true
	p.EnforceManagedNetwork = true
	p.NetworkProxy = &wire.NetworkProxy{Proxy: wire.NetworkProxySettings{
		Enabled: true, EnableSocks5: true, AllowUpstreamProxy: !n.Direct,
		Mode: mode, Domains: &domains, AllowLocalBinding: n.AllowLocal, TetherPorts: &ports,
	}}
	if n.AllowLocal {
		p.ManagedNetwork = &wire.ManagedNetwork{LoopbackPorts: []uint16{}, AllowLocalBinding: true}
	}
	if n.Ask > 0 {
		ms := uint64(max(n.Ask.Milliseconds(), 1))
		p.NetworkProxy.PolicyDecisionTimeoutMs = &ms
	}
	if p.Sandbox == nil {
		p.Sandbox = &wire.Sandbox{
			Permissions:         wire.Permissions{Type: wire.PermissionsDisabled},
			WindowsSandboxLevel: wire.WindowsDisabled, WorkspaceRoots: []wire.PathURI{},
		}
	}
}

// networkFits refuses a start whose network the server would not make as it is meant.
func networkFits(l *Link, p *wire.StartParams) error {
	if p.NetworkProxy == nil {
		return nil
	}
	if !l.info.Capabilities.NetworkProxyLaunch {
		return unsupported("a network with a proxy for the command alone")
	}
	settings := p.NetworkProxy.Proxy
	if settings.Domains == nil || settings.TetherPorts == nil || !*settings.TetherPorts || l.has(FeatureHostPorts) {
		return nil
	}
	for _, pattern := range slices.Sorted(maps.Keys(*settings.Domains)) {
		if hasPort(pattern) {
			return unsupported(fmt.Sprintf("the port in the host pattern %q", pattern))
		}
	}
	return nil
}

// hasPort reports whether a pattern of hosts has a port. An address of IPv6 that has
// one is in brackets.
func hasPort(pattern string) bool {
	if strings.HasPrefix(pattern, "[") {
		return strings.Contains(pattern, "]:")
	}
	return strings.Count(pattern, ":") == 1
}

// maxDecisions is how many decisions wait to be told. A program that does not keep up misses
// the oldest.
const maxDecisions = 256

// A networkPolicy is what a client has to do with the networks of its processes: it answers
// questions of the server, and tells decisions of the server.
type networkPolicy struct {
	questions chan struct{} // has one value for each question that is being decided
	told      *inbox.Inbox[decisionEvent]
	telling   sync.Once // starts with the first decision
}

func newNetworkPolicy() networkPolicy {
	return networkPolicy{questions: make(chan struct{}, maxPolicyRequests), told: inbox.New[decisionEvent](maxDecisions)}
}

// A decisionEvent is a decision of the server that the program wants to know.
type decisionEvent struct {
	decision wire.NetworkDecision
	process  func(wire.NetworkDecision) // may be nil
}

// decided takes a decision that the server tells. A decision that cannot be understood is
// left out: nothing depends on it.
func (c *Client) decided(params []byte) {
	var d wire.NetworkDecision
	if err := wire.Decode(params, &d); err != nil {
		c.opts.Log.Warn("a decision about the network is not understood", "err", err)
		return
	}
	e := decisionEvent{decision: d}
	if p := c.processes.find(d.ProcessID); p != nil {
		e.process = p.hosts.onDecision
		if d.Decision != string(wire.NetworkAllow) {
			p.hosts.refuse(net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))) // before its exit, which follows
		}
	}
	if e.process == nil && c.opts.OnNetworkDecision == nil {
		return
	}
	c.network.told.PutNewest(e)
	c.network.telling.Do(func() {
		c.tasks.Go(func() { // also tells those that wait when the client ends
			c.network.told.Drain(c.ctx.Done(), c.tellDecision)
		})
	})
}

func (c *Client) tellDecision(e decisionEvent) (more bool) {
	if e.process != nil {
		e.process(e.decision)
	}
	if c.opts.OnNetworkDecision != nil {
		c.opts.OnNetworkDecision(e.decision)
	}
	return true
}

// maxRefusedHosts is how many hosts a process remembers: a command may try every host.
const maxRefusedHosts = 16

// processHosts are the decisions about hosts that a process wanted to reach.
type processHosts struct {
	onDecision func(wire.NetworkDecision) // may be nil

	mu      sync.Mutex
	refused []string
}

// refuse remembers a host that the command was refused.
func (h *processHosts) refuse(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.refused) < maxRefusedHosts && !slices.Contains(h.refused, host) {
		h.refused = append(h.refused, host)
	}
}

// RefusedHosts returns the hosts that the command was refused so far, as HOST:PORT, each
// once; of many the first 16. Only a command with a [Network] is refused hosts. What was
// decided while there was no connection is missing.
func (p *Process) RefusedHosts() []string {
	p.hosts.mu.Lock()
	defer p.hosts.mu.Unlock()
	return slices.Clone(p.hosts.refused)
}

// A NetworkQuestion is a connection that a confined process wants to make.
type NetworkQuestion = wire.NetworkQuestion

// A NetworkDecision answers a NetworkQuestion.
type NetworkDecision struct {
	Type   string // "allow", "deny" or "ask"
	Reason string // of all but "allow"
}

// answer is the decision as it travels.
func (d NetworkDecision) answer() wire.NetworkPolicyResult {
	a := wire.NetworkAnswer{Type: wire.NetworkAnswerType(d.Type)}
	if d.Reason != "" || a.Type != wire.NetworkAllow {
		a.Reason = &d.Reason
	}
	return wire.NetworkPolicyResult{Decision: a}
}

// notAllowed is the answer to what nobody decides.
var notAllowed = NetworkDecision{Type: string(wire.NetworkDeny), Reason: "not_allowed"}

// decide answers a question about the network, and denies what nobody decides.
func (c *Client) decide(ctx context.Context, r *rpc.Request, done func()) {
	deny := func() {
		done()
		r.Reply(notAllowed.answer())
	}
	var p wire.NetworkPolicyParams
	if err := wire.Decode(r.Params, &p); err != nil {
		done()
		r.Fail(wire.Errorf(wire.CodeInvalidParams, "%v", err))
		return
	}
	known := c.processes.find(p.ProcessID) != nil
	if c.opts.NetworkPolicy == nil || !known || p.Request.Host == "" {
		deny()
		return
	}
	select {
	case c.network.questions <- struct{}{}:
	default:
		deny()
		return
	}
	c.tasks.Go(func() {
		defer func() { <-c.network.questions }()
		d := c.opts.NetworkPolicy(ctx, p.ProcessID, p.Request)
		done()
		r.Reply(d.answer())
	})
}
