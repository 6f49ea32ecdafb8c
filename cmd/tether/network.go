package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/netproxy"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// hostFlags say which hosts a command may reach, if not all or none.
type hostFlags struct {
	allow, deny []string
}

func (f *hostFlags) define(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.allow, "allow-host", nil, "let the command reach this `HOST[:PORT]`, through a proxy that it finds\nin its environment, and nothing else; *.HOST is what is below HOST,\n**.HOST also HOST itself; can be repeated")
	fs.StringArrayVar(&f.deny, "deny-host", nil, "except this `HOST[:PORT]` from --allow-host; can be repeated")
}

// given reports whether the command is to have a network of its own.
func (f *hostFlags) given() bool { return len(f.allow)+len(f.deny) > 0 }

// rules checks the patterns. network says that --network was given as well. Without
// patterns there are no rules.
func (f *hostFlags) rules(network bool) (*netpolicy.Rules, error) {
	switch {
	case !f.given():
		return nil, nil
	case len(f.allow) == 0:
		return nil, usageError{errors.New("--deny-host needs --allow-host, e.g. --allow-host '*'")}
	case network:
		return nil, usageError{errors.New("--network does not go with --allow-host: it would open the network to all hosts")}
	}
	domains := map[string]netpolicy.Access{}
	for _, list := range []struct {
		flag     string
		patterns []string
		access   netpolicy.Access
	}{{"--allow-host", f.allow, netpolicy.Allow}, {"--deny-host", f.deny, netpolicy.Deny}} {
		for _, pattern := range list.patterns {
			if err := checkPattern(pattern, list.access); err != nil {
				return nil, usageError{fmt.Errorf("%s %q: %w", list.flag, pattern, err)}
			}
			domains[pattern] = list.access // deny comes last, and wins
		}
	}
	rules, err := netpolicy.Compile(netpolicy.Settings{Domains: domains, Ports: true})
	if err != nil {
		return nil, usageError{fmt.Errorf("--allow-host and --deny-host: %w", err)}
	}
	return rules, nil
}

var errHostSyntax = errors.New("expected HOST or HOST:PORT, such as example.com or *.example.com:443")

// checkPattern refuses what is no pattern, and what is one but cannot match any host:
// whoever typed that meant something else.
func checkPattern(pattern string, access netpolicy.Access) error {
	switch {
	case strings.TrimSpace(pattern) == "":
		return errors.New("the name of a host is missing")
	case strings.ContainsAny(pattern, `/\{}`), strings.ContainsFunc(pattern, unicode.IsSpace):
		return errHostSyntax
	case access == netpolicy.Deny && strings.Trim(pattern, "*.") == "":
		return errors.New("this denies every host; expected some hosts, such as example.com or *.example.com")
	}
	one := map[string]netpolicy.Access{pattern: access}
	if _, err := netpolicy.Compile(netpolicy.Settings{Domains: one, Ports: true}); err != nil {
		return err
	}
	_, notAddress := netip.ParseAddr(pattern)
	switch {
	case strings.HasPrefix(pattern, "."):
		return fmt.Errorf("no host begins with a dot; *%[1]s is all that is below, **%[1]s also the host itself", pattern)
	case strings.Contains(pattern, ".."):
		return errors.New("no host has two dots in a row")
	case strings.ContainsAny(pattern, "@!,;=&%#"):
		return errHostSyntax
	case strings.Count(pattern, ":") > 1 && notAddress != nil && !strings.ContainsAny(pattern, "[*?"):
		return errors.New("expected HOST:PORT, or an IPv6 address")
	}
	return nil
}

// A refusal is a host that a command wanted to reach and may not.
type refusal struct {
	host    string
	port    uint16
	reason  string // as the wire spells it
	rule    string // the pattern, or range of addresses, that decided, if one did and the server tells
	address string // what the host stands for, if that is why and the server tells
}

// text tells people about it. The host is from the command: it is not trusted.
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

// localWords say what is not public about an address, given its range if that is known.
func localWords(where string) string {
	if where == "" {
		return "a private or local address"
	}
	return "a private or local address, of " + terminal.Printable(where)
}

// isLiteral reports whether a host stands for itself: an address, or the one name that
// rules treat like one.
func isLiteral(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// maxRefusals is how many hosts people are told about: a command may try every port
// of every address.
const maxRefusals = 100

// refusals tell people which hosts a command was refused, each once.
type refusals struct {
	status *terminal.StatusLine

	mu    sync.Mutex
	ports bool // the server knows ports in patterns
	seen  map[string]bool
}

func newRefusals(status *terminal.StatusLine) *refusals {
	return &refusals{status: status, ports: true, seen: map[string]bool{}}
}

// withoutPorts is for servers that do not know ports in patterns.
func (r *refusals) withoutPorts() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ports = false
}

// decided is client.Options.OnNetworkDecision.
func (r *refusals) decided(d wire.NetworkDecision) {
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

// hostOf is an address without its port.
func hostOf(address string) string {
	if a, err := netip.ParseAddrPort(address); err == nil {
		return a.Addr().String()
	}
	return address
}

func (r *refusals) tell(one refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := net.JoinHostPort(one.host, strconv.Itoa(int(one.port)))
	switch {
	case r.seen[key] || len(r.seen) > maxRefusals:
		return
	case len(r.seen) == maxRefusals:
		r.seen[key] = true
		r.status.Note("refused more than " + strconv.Itoa(maxRefusals) + " hosts; the others are not told")
		return
	}
	r.seen[key] = true
	r.status.Note(one.text(r.ports))
}

// A localNetwork is the network of a command that runs without a server.
type localNetwork struct {
	gate   *netproxy.Gate
	env    []string // of the command
	events chan refusal
	done   chan struct{} // closed when all events are told
}

// maxEvents is how many refusals wait to be told; further ones are not.
const maxEvents = 256

// openLocalNetwork makes a network. env is what the command would have without it.
func openLocalNetwork(rules *netpolicy.Rules, env []string, news *refusals) (*localNetwork, error) {
	n := &localNetwork{events: make(chan refusal, maxEvents), done: make(chan struct{})}
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

func (n *localNetwork) decided(e netproxy.Event) {
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

// close ends the network when its command has ended, and tells what is left to tell.
func (n *localNetwork) close() {
	n.gate.Close() // nobody decides after it
	close(n.events)
	<-n.done
}
