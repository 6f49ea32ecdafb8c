package sandboxhost

import (
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// A refusal is a host that a command tried to reach but may not.
type refusal struct {
	host    string
	port    uint16
	reason  string // the wire's word
	rule    string // the pattern, or range of addresses, that decided, if there is one and the server sends it
	address string // the address of the host, if that is the reason and the server sends it
}

// text describes the refusal for people. The host comes from the command and
// is not trusted.
func (r refusal) text(ports bool) string {
	at := net.JoinHostPort(terminal.Printable(r.host), strconv.Itoa(int(r.port)))
	advice := "; allow it with --allow-host "
	if ports {
		advice += at
	} else {
		advice += terminal.Printable(r.host)
	}
	why := "the server says " + terminal.Printable(r.reason)
	switch r.reason {
	case netpolicy.NotAllowed:
		why = "no --allow-host matches" + advice
	case netpolicy.Denied:
		why = "--deny-host matches"
		if r.rule != "" {
			why = "--deny-host " + terminal.Printable(r.rule)
		}
	case netpolicy.NotAllowedLocal:
		switch {
		case isLiteral(r.host):
			why = "it is " + localWords(r.rule) + ", and no --allow-host is for it alone" + advice
		case r.address != "":
			why = "it leads to " + terminal.Printable(r.address) + ", " + localWords(r.rule)
		default:
			why = "it leads to " + localWords(r.rule) + ", or to none"
		}
	}
	return "refused " + at + ": " + why
}

// localWords describes a private or local address, with its range if that is known.
func localWords(where string) string {
	if where == "" {
		return "a private or local address"
	}
	return "a private or local address, of " + terminal.Printable(where)
}

// isLiteral reports whether a host needs no lookup: an address, or localhost, which
// rules treat like one.
func isLiteral(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// maxRefusals is how many refused hosts are reported: a command may try every port
// of every address.
const maxRefusals = 100

// Refusals report to people which hosts a command was refused, each once.
type Refusals struct {
	status *terminal.StatusLine

	mu    sync.Mutex
	ports bool // the server knows ports in patterns
	seen  map[string]bool
}

func NewRefusals(status *terminal.StatusLine) *Refusals {
	return &Refusals{status: status, ports: true, seen: map[string]bool{}}
}

// WithoutPorts is for servers that do not support ports in patterns.
func (r *Refusals) WithoutPorts() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ports = false
}

// Decided is client.Options.OnNetworkDecision.
func (r *Refusals) Decided(d wire.NetworkDecision) {
	if d.Decision == string(wire.NetworkAllow) {
		return
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	r.tell(refusal{d.Host, d.Port, d.Reason, text(d.TetherRule), hostOf(text(d.TetherAddress))})
}

// hostOf returns an address without its port.
func hostOf(address string) string {
	if a, err := netip.ParseAddrPort(address); err == nil {
		return a.Addr().String()
	}
	return address
}

func (r *Refusals) tell(one refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := net.JoinHostPort(one.host, strconv.Itoa(int(one.port)))
	switch {
	case r.seen[key] || len(r.seen) > maxRefusals:
		return
	case len(r.seen) == maxRefusals:
		r.seen[key] = true
		r.status.Note("refused more than " + strconv.Itoa(maxRefusals) + " hosts; further ones are not reported")
		return
	}
	r.seen[key] = true
	r.status.Note(one.text(r.ports))
}
