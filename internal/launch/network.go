package launch

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/netproxy"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// managed reports whether a client asks for a managed network: a network namespace of
// the command's own, with a proxy as its only way out.
func managed(p *wire.StartParams) bool {
	return confined(p) && (p.EnforceManagedNetwork || p.Sandbox.EnforceManagedNetwork)
}

// allUnixSockets reports whether a client asks for all Unix sockets in a managed network.
func allUnixSockets(p *wire.StartParams) bool {
	return p.ManagedNetwork != nil && p.ManagedNetwork.DangerouslyAllowAllUnixSockets ||
		p.NetworkProxy != nil && p.NetworkProxy.Proxy.DangerouslyAllowAllUnixSockets
}

// maxCallbackID limits the id of a process whose client is asked about hosts.
const maxCallbackID = 256

// networkRules checks the proxy that a client asks for, and returns its rules; nil: the
// client asks for none.
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

// checkSockets refuses strings that cannot be the path of a Unix socket. The paths have no
// other effect: no proxy connects to Unix sockets.
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

// A network holds what a process uses to reach the network, if that differs from
// the machine's network.
type network struct {
	env     []string        // environment of the process
	proxy   *netproxy.Proxy // a proxy for this process; nil: none
	gate    *netproxy.Gate  // the way out of a managed network; nil: none
	refusal string          // why a managed network has no way out; otherwise empty

	listeners []net.Listener // of a proxy outside of a managed network
}

// openNetwork makes the network that the client asks for: with a proxy of tether's own,
// or a managed network that leads to the proxies that env names. nil: neither. listen makes what
// a proxy outside of a managed network listens on, as netproxy.Listen does.
func (l *Launcher) openNetwork(c *Command, env []string, listen func(socks bool) ([]net.Listener, error)) (*network, error) {
	n := &network{env: env}
	switch {
	case c.rules != nil:
		if err := l.openProxy(c, n, listen); err != nil {
			return nil, err
		}
	case managed(c.params):
		rest, endpoints, err := netproxy.FindEndpoints(env)
		if err == nil {
			n.gate, err = netproxy.NewGate(endpoints, l.config.Own, l.log.With("process", c.params.ProcessID))
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

// openProxy gives a command a proxy. In a managed network, other processes cannot reach
// it.
func (l *Launcher) openProxy(c *Command, n *network, listen func(socks bool) ([]net.Listener, error)) (err error) {
	want := c.params.NetworkProxy.Proxy
	isManaged := managed(c.params)
	log := l.log.With("process", c.params.ProcessID)
	cfg := netproxy.Config{
		Rules:    c.rules,
		SocksUDP: want.EnableSocks5UDP && !isManaged, // datagrams do not cross network namespaces
		Decided:  func(e netproxy.Event) { l.decided(c, e) },
		Own:      l.config.Own,
		Log:      log,
	}
	if want.AllowUpstreamProxy {
		cfg.Upstream = l.config.Env
	}
	if timeout := c.params.NetworkProxy.PolicyDecisionTimeoutMs; timeout != nil {
		cfg.Ask = newAsker(c.params.ProcessID, *timeout, l.owner, log).ask
	}
	n.proxy = netproxy.New(cfg)
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if isManaged {
		n.env, n.gate, err = n.proxy.Gate(n.env, want.EnableSocks5, want.AllowLocalBinding)
		return err
	}
	if n.listeners, err = listen(want.EnableSocks5); err == nil {
		n.env = n.proxy.Open(n.env, n.listeners, want.AllowLocalBinding)
	}
	return err
}

// copies returns copies of the sockets on which the proxy listens outside of a managed network.
func (n *network) copies() (files []*os.File, err error) {
	for _, l := range n.listeners {
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("copy the socket of a proxy: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// endWith closes the network when the process has ended.
func (l *Launcher) endWith(child *proc.Process, n *network) {
	l.networks.Go(func() { // ends with the process
		<-child.Done()
		n.close()
	})
}

// close ends the network with all its connections.
func (n *network) close() {
	if n.proxy != nil {
		n.proxy.Close()
	}
	if n.gate != nil {
		n.gate.Close()
	}
}
