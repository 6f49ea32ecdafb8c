package sandboxhost

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/wire"
)

// A HostDecision says whether a command could reach a host.
type HostDecision struct {
	Host      string `json:"host"` // as rules compare it
	Port      uint16 `json:"port"`
	Reachable bool   `json:"reachable"`
	Reason    string `json:"reason,omitempty"` // why not, as the wire spells it
	Rule      string `json:"rule,omitempty"`   // the pattern or range of addresses that decides, if one does
	Why       string `json:"why"`              // in words
}

// explainPort is used if only a host is given.
const explainPort = 443

// decide decides about a host by the rules or, without rules, by the network
// of the intent.
func (d *HostDecision) decide(rules *netpolicy.Rules, network wire.NetworkAccess) {
	if rules == nil {
		d.Reachable = network == wire.NetworkEnabled
		d.Why = "the network is on, for all hosts"
		if !d.Reachable {
			d.Why = "the network is off; --network opens it, --allow-host for some hosts only"
		}
		return
	}
	q := netpolicy.Query{Protocol: netpolicy.Connect, Host: d.Host, Port: d.Port, Method: "CONNECT"}
	decision := rules.Decide(q)
	address, notAddress := netip.ParseAddr(d.Host)
	if decision.Allowed && notAddress == nil {
		if at := rules.Address(q, address); !at.Allowed {
			decision = at
		}
	}
	d.Reachable, d.Rule, d.Reason = decision.Allowed, decision.Rule, decision.Reason
	if d.Reachable {
		d.Reason = ""
	}
	d.Why = d.words()
}

// words explains a decision of the rules.
func (d *HostDecision) words() string {
	switch {
	case d.Reachable && !isLiteral(d.Host):
		return "--allow-host " + d.Rule + ", unless it leads to a private or local address when the command asks for it"
	case d.Reachable:
		return "--allow-host " + d.Rule
	case d.Reason == netpolicy.Denied:
		return "--deny-host " + d.Rule
	case d.Reason == netpolicy.NotAllowedLocal:
		return "it is " + localWords(d.Rule) + ", which only an --allow-host for it alone opens, not one with *"
	case d.Reason == netpolicy.NotAllowed:
		return "no --allow-host matches"
	}
	return d.Reason
}

// ParseHost parses HOST or HOST:PORT, for a [Question].
func ParseHost(text string) (HostDecision, error) {
	host, port, err := splitHost(text)
	return HostDecision{Host: host, Port: port}, err
}

func splitHost(text string) (host string, port uint16, err error) {
	if strings.ContainsAny(text, "/@ ") {
		return "", 0, errors.New("expected HOST or HOST:PORT")
	}
	host, number, err := net.SplitHostPort(text)
	if err != nil { // no port, or an error that Normalize will report
		host, number = text, strconv.Itoa(explainPort)
		if inside, ok := strings.CutPrefix(text, "["); ok {
			host = strings.TrimSuffix(inside, "]")
		}
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("expected a port from 1 to 65535, not %q", number)
	}
	if host, err = netpolicy.Normalize(host); err != nil {
		return "", 0, err
	}
	return host, uint16(n), nil
}

func (d *HostDecision) print(b *strings.Builder) {
	result := "refused"
	if d.Reachable {
		result = "reachable"
	}
	fmt.Fprintf(b, "  %s\n    %s: %s\n", net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port))), result, d.Why)
}
