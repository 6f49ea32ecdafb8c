package sandboxhost

import (
	"fmt"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/netproxy"
)

// A network is the managed network of a command that runs without a server.
type network struct {
	gate   *netproxy.Gate
	env    []string // of the command
	events chan refusal
	done   chan struct{} // closed when all events are reported
}

// maxEvents is how many refusals wait to be reported; further ones are
// dropped.
const maxEvents = 256

// openNetwork makes a network. env is the command's environment without it.
func openNetwork(rules *netpolicy.Rules, env []string, news *Refusals) (*network, error) {
	n := &network{events: make(chan refusal, maxEvents), done: make(chan struct{})}
	proxy := netproxy.New(netproxy.Config{Rules: rules, Upstream: env, Decided: n.decided})
	var err error
	if n.env, n.gate, err = proxy.Gate(env, true, false); err != nil {
		proxy.Close()
		return nil, fmt.Errorf("make a network for the command: %w", err)
	}
	go func() { // ends with close
		defer close(n.done)
		for e := range n.events {
			news.tell(e)
		}
	}()
	return n, nil
}

func (n *network) decided(e netproxy.Event) {
	if e.Decision.Allowed {
		return
	}
	one := refusal{host: e.Query.Host, port: e.Query.Port, reason: e.Decision.Reason, rule: e.Decision.Rule}
	if e.Address.IsValid() {
		one.address = e.Address.Addr().String()
	}
	select {
	case n.events <- one:
	default:
	}
}

// close ends the network after its command has ended, and reports the remaining
// refusals.
func (n *network) close() {
	n.gate.Close() // no decision is made after this
	close(n.events)
	<-n.done
}
