package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/netproxy"
	"github.com/tetherexec/tether/wire"
)

// managed reports whether a process has a network of its own, with a way out.
func managed(p *wire.StartParams) bool {
	return confined(p) && (p.EnforceManagedNetwork || p.Sandbox.EnforceManagedNetwork)
}

// allUnixSockets reports whether a client insists on unix sockets in a managed network.
func allUnixSockets(p *wire.StartParams) bool {
	return p.ManagedNetwork != nil && p.ManagedNetwork.DangerouslyAllowAllUnixSockets ||
		p.NetworkProxy != nil && p.NetworkProxy.Proxy.DangerouslyAllowAllUnixSockets
}

// maxCallbackID bounds the id of a process whose client is asked about hosts.
const maxCallbackID = 256

// networkRules checks what a client wants of a proxy; nil: it wants none.
func networkRules(p *wire.StartParams) (*netpolicy.Rules, error) {
	want := p.NetworkProxy
	if want == nil {
		return nil, nil
	}
	if timeout := want.PolicyDecisionTimeoutMs; timeout != nil {
		if *timeout == 0 {
			return nil, ErrDecisionTimeout
		}
		if p.ProcessID == "" || len(p.ProcessID) > maxCallbackID {
			return nil, ErrCallbackID
		}
	}
	if !want.Proxy.Enabled {
		return nil, fmt.Errorf("%w: executor-local network proxy launch requires an enabled proxy", ErrNetworkProxy)
	}
	settings := netpolicy.Settings{
		Mode: netpolicy.Mode(want.Proxy.Mode), Review: want.Proxy.ReviewDomains, AllowLocalBinding: want.Proxy.AllowLocalBinding,
		Ports: want.Proxy.TetherPorts != nil && *want.Proxy.TetherPorts,
	}
	if want.Proxy.Domains != nil {
		settings.Domains = make(map[string]netpolicy.Access, len(*want.Proxy.Domains))
		for pattern, access := range *want.Proxy.Domains {
			settings.Domains[pattern] = netpolicy.Access(access)
		}
	}
	rules, err := netpolicy.Compile(settings)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNetworkProxy, err)
	}
	if err := checkSockets(want.Proxy.UnixSockets); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNetworkProxy, err)
	}
	return rules, nil
}

// checkSockets refuses what cannot be the path of a unix socket. Nothing else is done with
// the paths: no proxy leads to a unix socket.
func checkSockets(rules *wire.SocketRules) error {
	if rules == nil {
		return nil
	}
	allowed := 0
	for _, path := range slices.Sorted(maps.Keys(*rules)) {
		if (*rules)[path] != wire.SocketAllow {
			continue
		}
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "\x00") {
			return fmt.Errorf("invalid network.allow_unix_sockets[%d]: expected a NUL-free absolute path for Linux, got %q", allowed, path)
		}
		allowed++
	}
	return nil
}

// A network is what a process reaches the world by, if not like everybody.
type network struct {
	env     []string        // of the process
	proxy   *netproxy.Proxy // of its own; nil: none
	gate    *netproxy.Gate  // out of a network of its own; nil: none
	refusal string          // why it has a network of its own and no way out; may be empty
}

// openNetwork makes the network that a process asks for; nil: it asks for none.
func (s *Session) openNetwork(p *Process, env []string) (*network, error) {
	n := &network{env: env}
	switch {
	case p.rules != nil:
		if err := s.openProxy(p, n); err != nil {
			return nil, err
		}
	case managed(p.params):
		rest, endpoints, err := netproxy.FindEndpoints(env)
		if err == nil {
			n.gate, err = netproxy.NewGate(endpoints, s.table.config.Own, s.log.With("process", p.ID))
		}
		if err != nil {
			n.refusal = "tether sandbox: failed to prepare host proxy routing bridge: " + err.Error()
			break
		}
		n.env = rest
	default:
		return nil, nil
	}
	return n, nil
}

// openProxy gives a process a proxy. In a network of its own nobody else gets to it.
func (s *Session) openProxy(p *Process, n *network) (err error) {
	want := p.params.NetworkProxy.Proxy
	inside := managed(p.params)
	cfg := netproxy.Config{
		Rules:    p.rules,
		SocksUDP: want.EnableSocks5UDP && !inside, // datagrams do not cross networks
		Decided:  p.decided,
		Own:      s.table.config.Own,
		Log:      s.log.With("process", p.ID),
	}
	if want.AllowUpstreamProxy {
		cfg.Upstream = s.table.config.Env
	}
	if p.params.NetworkProxy.PolicyDecisionTimeoutMs != nil {
		p.hostLog = netproxy.LimitLog(cfg.Log)
		cfg.Ask = p.askNetwork
	}
	n.proxy = netproxy.New(cfg)
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if inside {
		n.env, n.gate, err = n.proxy.Gate(n.env, want.EnableSocks5, want.AllowLocalBinding)
		return err
	}
	n.env, err = n.proxy.Open(n.env, want.EnableSocks5, want.AllowLocalBinding)
	return err
}

// close ends the network, all connections included.
func (n *network) close() {
	if n.proxy != nil {
		n.proxy.Close()
	}
	if n.gate != nil {
		n.gate.Close()
	}
}

// decided tells the client about a decision, if it listens and is not far behind.
func (p *Process) decided(e netproxy.Event) {
	s := p.session
	s.table.network.count(e)
	s.mu.Lock()
	a := s.attachment
	s.mu.Unlock()
	if a == nil || !a.isReady() {
		return
	}
	if h := e.Query.Protocol; e.Decision.Source == netpolicy.ModeGuard && (h == netpolicy.HTTP || h == netpolicy.Connect) {
		// The mode comes last: clients are told first that the host is all right.
		host := e
		host.Decision = netpolicy.Decision{Allowed: true, Source: netpolicy.Baseline}
		if e.Asked {
			host.Decision.Source = netpolicy.Decider
		}
		a.peer.Tell(wire.NoteNetworkPolicyDecision, p.networkNote(host))
	}
	a.peer.Tell(wire.NoteNetworkPolicyDecision, p.networkNote(e))
}

// networkNote is what the wire says about a decision.
func (p *Process) networkNote(e netproxy.Event) wire.NetworkDecision {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	note := wire.NetworkDecision{
		ProcessID: p.ID, Timestamp: e.Time.UTC().Format("2006-01-02T15:04:05.000Z"),
		Scope: "domain", Decision: decisionWord(e), Source: string(e.Decision.Source), Reason: e.Decision.Reason,
		Protocol: string(e.Query.Protocol), Host: e.Query.Host, Port: e.Query.Port, Method: given(e.Query.Method), Client: given(e.Client),
		TetherRule: given(e.Decision.Rule),
	}
	switch {
	case e.Decision.Source != netpolicy.Baseline && e.Decision.Source != netpolicy.Decider:
		note.Scope = "non_domain"
	case e.Decision.Allowed && e.Asked:
		note.PolicyOverride, note.Reason = true, netpolicy.NotAllowed // by the rules alone
	case e.Decision.Allowed:
		note.Reason = "allow"
	}
	if e.Address.IsValid() {
		note.TetherAddress = given(e.Address.String())
	}
	return note
}

const (
	maxReason   = 1024            // bytes of a client's reason
	answerGrace = 5 * time.Second // for the way of an answer, beside the client's time
	maxPatience = 24 * time.Hour  // with an answer, whatever the client says

	// maxQuestions is how many questions about one process may wait for the client, which
	// takes a limited number: no process may use them all up for the others.
	maxQuestions = 64
)

// askNetwork puts a query to the client. What is not a clear answer is no permission.
func (p *Process) askNetwork(ctx context.Context, q netpolicy.Query) (netpolicy.Decision, error) {
	denied := netpolicy.Decision{Source: netpolicy.Decider, Reason: netpolicy.NotAllowed}
	s := p.session
	s.mu.Lock()
	a := s.attachment
	s.mu.Unlock()
	if a == nil {
		return denied, nil
	}
	defer p.questions.Add(-1)
	if p.questions.Add(1) > maxQuestions {
		p.hostLog.Warn("too many questions about hosts", "host", q.Host, "port", q.Port)
		return denied, nil
	}
	patience := maxPatience
	if ms := *p.params.NetworkProxy.PolicyDecisionTimeoutMs; ms < uint64(maxPatience/time.Millisecond) {
		patience = time.Duration(ms)*time.Millisecond + answerGrace
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	select {
	case <-a.ready:
	case <-ctx.Done():
		return denied, nil
	}
	result, err := a.peer.Ask(ctx, wire.MethodNetworkPolicyRequest, wire.NetworkPolicyParams{
		ProcessID: p.ID, Request: wire.NetworkQuestion{Protocol: string(q.Protocol), Host: q.Host, Port: q.Port},
	})
	var answer wire.NetworkPolicyResult
	if err == nil {
		err = wire.Decode(result, &answer)
	}
	if err != nil {
		p.hostLog.Warn("no answer about a host", "host", q.Host, "port", q.Port, "err", err)
		return denied, nil
	}
	if answer.Decision.Type == wire.NetworkAllow {
		return netpolicy.Decision{Allowed: true, Source: netpolicy.Decider}, nil
	}
	reason := answer.Decision.Reason
	if reason == nil || len(*reason) > maxReason || !printable(*reason) {
		return denied, nil
	}
	denied.Open, denied.Reason = answer.Decision.Type == wire.NetworkAsk, *reason
	if denied.Reason == "" {
		denied.Reason = "policy_denied"
	}
	return denied, nil
}

// printable reports whether a text has no control characters.
func printable(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }

// decisionWord is how the wire calls the outcome of a decision.
func decisionWord(e netproxy.Event) string {
	switch d := e.Decision; {
	case d.Allowed:
		return string(wire.NetworkAllow)
	case d.Open && d.Source == netpolicy.Decider: // who is asked wants others to be asked
		return string(wire.NetworkAsk)
	}
	return string(wire.NetworkDeny)
}
