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

// A Network says which hosts a command may reach. The command gets a network of its own,
// whose only way out is a proxy that the server makes for it. Programs find the proxy in the
// usual variables (HTTP_PROXY and similar ones); a program that ignores them reaches nothing.
// The zero value allows no host.
//
// A pattern is a name or an address (example.com, 192.0.2.7, [2001:db8::1]), all names
// below one (*.example.com), or these and the name itself (**.example.com). On servers
// with FeatureHostPorts it may end in a port: *.example.com:443.
type Network struct {
	Allow []string // patterns of hosts that may be reached
	Deny  []string // patterns of hosts that may not be reached, even if Allow has them

	// Mode restricts the requests to hosts; empty: no restriction.
	Mode wire.NetworkMode

	// AllowLocal treats private and local addresses like others. Without it, such an address
	// is allowed only by a pattern that is the address itself, and a name that leads to one
	// is refused. For special addresses, such as link-local ones, this rule always holds.
	AllowLocal bool

	// Direct does not use the proxies that the environment of the server names.
	Direct bool

	// Ask, if not 0, lets Decide, or else [Options.NetworkPolicy], decide about hosts that no
	// pattern matches, within this time. If it is 0, these hosts are refused.
	Ask time.Duration

	// Decide, if set, decides about the hosts of this command instead of [Options.NetworkPolicy].
	// Several calls may run at the same time. The context ends when the connection is lost: then
	// the server has refused the host.
	Decide func(context.Context, NetworkQuestion) NetworkDecision

	// OnDecision, if set, is called like [Options.OnNetworkDecision], but only with
	// decisions about this command and until its end.
	OnDecision func(wire.NetworkDecision)
}

// ask adds the network to the parameters of a start. A network needs a sandbox: if there is
// none, the command gets one that does not restrict its files.
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

// networkFits refuses a start if the server cannot make its network, or would misread it.
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

// hasPort reports whether a pattern of hosts has a port. An IPv6 address with a port is in
// brackets.
func hasPort(pattern string) bool {
	if strings.HasPrefix(pattern, "[") {
		return strings.Contains(pattern, "]:")
	}
	return strings.Count(pattern, ":") == 1
}

// maxDecisions is how many decisions may wait to be reported. Above it the oldest are
// dropped.
const maxDecisions = 256

// A networkPolicy answers questions of the server about the networks of processes, and
// reports decisions of the server to the program.
type networkPolicy struct {
	questions  chan struct{} // has one value for each question that is being decided
	unreported *inbox.Inbox[*decisionEvent]
	reporting  sync.Once // starts with the first decision
}

func newNetworkPolicy() networkPolicy {
	return networkPolicy{questions: make(chan struct{}, maxPolicyRequests), unreported: inbox.New[*decisionEvent](maxDecisions)}
}

// A decisionEvent is a decision of the server that is reported to the program.
type decisionEvent struct {
	decision wire.NetworkDecision
	process  func(wire.NetworkDecision) // may be nil
}

// decided processes a notification about a decision. If it cannot be decoded, it is dropped:
// nothing depends on it.
func (c *Client) decided(params []byte) {
	var d wire.NetworkDecision
	if err := wire.Decode(params, &d); err != nil {
		c.opts.Log.Warn("cannot decode a network decision of the server", "err", err)
		return
	}
	e := &decisionEvent{decision: d}
	if p := c.processes.find(d.ProcessID); p != nil {
		e.process = p.hosts.onDecision
		if d.Decision != string(wire.NetworkAllow) {
			p.hosts.refuse(net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))) // before its exit, which follows
		}
	}
	if e.process == nil && c.opts.OnNetworkDecision == nil {
		return
	}
	c.network.unreported.PutNewest(e)
	c.network.reporting.Do(func() {
		c.tasks.Go(func() { // when the client ends, it reports the decisions that wait and ends
			c.network.unreported.Drain(c.ctx.Done(), c.reportDecision)
		})
	})
}

func (c *Client) reportDecision(e *decisionEvent) (more bool) {
	if e.process != nil {
		e.process(e.decision)
	}
	if c.opts.OnNetworkDecision != nil {
		c.opts.OnNetworkDecision(e.decision)
	}
	return true
}

// maxRefusedHosts is how many refused hosts a process remembers: a command may try any number
// of hosts.
const maxRefusedHosts = 16

// processHosts are the decisions about hosts that a process wanted to reach.
type processHosts struct {
	onDecision func(wire.NetworkDecision)                             // may be nil
	decide     func(context.Context, NetworkQuestion) NetworkDecision // may be nil

	mu      sync.Mutex
	refused []string
}

// refuse remembers a refused host.
func (h *processHosts) refuse(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.refused) < maxRefusedHosts && !slices.Contains(h.refused, host) {
		h.refused = append(h.refused, host)
	}
}

// RefusedHosts returns the hosts that were refused to the command so far, as HOST:PORT, each
// once, at most the first 16. Only commands with a [Network] have refused hosts. Decisions
// that were made while there was no connection are missing.
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

// answer is the decision in the form of the protocol.
func (d NetworkDecision) answer() wire.NetworkPolicyResult {
	a := wire.NetworkAnswer{Type: wire.NetworkAnswerType(d.Type)}
	if d.Reason != "" || a.Type != wire.NetworkAllow {
		a.Reason = &d.Reason
	}
	return wire.NetworkPolicyResult{Decision: a}
}

// notAllowed is the answer if NetworkPolicy cannot be asked.
var notAllowed = NetworkDecision{Type: string(wire.NetworkDeny), Reason: "not_allowed"}

// decide answers a question of the server by asking the process's Decide, or else NetworkPolicy. The
// answer is no if there is neither, if the process is unknown, or if too many questions wait.
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
	process := c.processes.find(p.ProcessID)
	if process == nil || process.hosts.decide == nil && c.opts.NetworkPolicy == nil || p.Request.Host == "" {
		deny()
		return
	}
	judge := process.hosts.decide
	if judge == nil {
		judge = func(ctx context.Context, q NetworkQuestion) NetworkDecision {
			return c.opts.NetworkPolicy(ctx, p.ProcessID, q)
		}
	}
	select {
	case c.network.questions <- struct{}{}:
	default:
		deny()
		return
	}
	c.tasks.Go(func() {
		defer func() { <-c.network.questions }()
		d := judge(ctx, p.Request)
		done()
		r.Reply(d.answer())
	})
}
