package netpolicy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/tetherexec/tether/internal/host"
)

// Mode narrows the requests to reachable hosts.
type Mode string

// The modes. The zero value is Full.
const (
	Full    Mode = "full"
	Limited Mode = "limited" // methods that only read, without TLS
)

// Access is the access of a pattern's hosts.
type Access string

// The values of Access.
const (
	Allow Access = "allow"
	Deny  Access = "deny" // wins over Allow
	None  Access = "none" // as if the pattern were not there
)

// Settings are rules in their written form. A pattern is
//
//	example.com      that host
//	*.example.com    all hosts below it
//	**.example.com   both
//	192.0.2.1, ::1   that address
//	*                every host; not for Deny
//
// A * or ? elsewhere stands for any text, or any one character, also dots. Only a
// pattern without them opens a local or private address.
type Settings struct {
	Mode              Mode
	Domains           map[string]Access
	Review            []string // patterns: Allow does not settle these hosts, Ask must
	AllowLocalBinding bool     // private and local addresses may be reached like others

	// Ports makes a pattern with a port (example.com:443, [::1]:8080) match only that
	// port. Without it a port is ignored, as clients expect for the Domains that they
	// send.
	Ports bool
}

// Rules are compiled settings. They do not change.
type Rules struct {
	mode                Mode
	local               bool
	allow, deny, review ruleSet
	denyAddress         ruleSet // the patterns of deny that are about addresses
}

// Protocol is how a process tries to reach a host.
type Protocol string

// The protocols, as the wire spells them.
const (
	HTTP     Protocol = "http"
	Connect  Protocol = "https_connect"
	SocksTCP Protocol = "socks5_tcp"
	SocksUDP Protocol = "socks5_udp"
)

// A Query is one attempt to reach a host.
type Query struct {
	Protocol Protocol
	Host     string // as Normalize returns it
	Port     uint16
	Method   string // of HTTP; CONNECT for Connect; empty for others
}

// A Decision is the result of a Query.
type Decision struct {
	Allowed bool
	Open    bool   // denied only because no rule applies: a client may be asked
	Source  Source // the part that decided
	Reason  string // why it is denied; see the Reason constants
	Rule    string // the pattern, as written, or the range of addresses that decided, if one did
}

// Source is the part that made a decision.
type Source string

// The sources, as the wire spells them.
const (
	Baseline  Source = "baseline_policy"
	ModeGuard Source = "mode_guard"
	Decider   Source = "decider"
)

// Reasons for a denial, as the wire spells them.
const (
	NotAllowed       = "not_allowed"
	NotAllowedLocal  = "not_allowed_local"
	Denied           = "denied"
	MethodNotAllowed = "method_not_allowed"
	MitmRequired     = "mitm_required" // Limited cannot see methods inside a tunnel
)

// Limits of settings. They are far above real settings, and keep a decision cheap.
const (
	MaxPatterns      = 32768
	MaxGlobs         = 1024 // patterns that have to be tried one by one
	MaxPatternLength = 1024 // bytes; a name has 253
)

// Compile checks settings and compiles them to rules. If there are several errors, it
// always reports the same one.
func Compile(s Settings) (*Rules, error) {
	r := &Rules{mode: s.Mode, local: s.AllowLocalBinding}
	switch s.Mode {
	case "":
		r.mode = Full
	case Full, Limited:
	default:
		return nil, fmt.Errorf("unknown network mode %q", s.Mode)
	}
	if len(s.Domains)+len(s.Review) > MaxPatterns {
		return nil, fmt.Errorf("more than %d domain patterns", MaxPatterns)
	}
	for _, text := range slices.Sorted(maps.Keys(s.Domains)) {
		if err := r.add(text, s.Domains[text], s.Ports); err != nil {
			return nil, err
		}
	}
	for _, text := range s.Review {
		p, err := parsePattern(text, s.Ports)
		if err != nil {
			return nil, err
		}
		for _, p := range p.broad() {
			r.review.add(p)
		}
	}
	if len(r.allow.globs)+len(r.deny.globs)+len(r.review.globs) > MaxGlobs {
		return nil, fmt.Errorf("more than %d domain patterns with wildcards inside", MaxGlobs)
	}
	return r, nil
}

func (r *Rules) add(text string, access Access, ports bool) error {
	if access == None {
		return nil // not even checked
	}
	p, err := parsePattern(text, ports)
	if err != nil {
		return err
	}
	switch access {
	case Allow:
		r.allow.add(p)
	case Deny:
		if p.global() {
			return fmt.Errorf("invalid value for network.denied_domains: %s (allowed exact hosts or scoped wildcards like *.example.com or **.example.com)", strings.TrimSpace(text))
		}
		for _, p := range p.broad() {
			r.deny.add(p)
			if p.numeric() {
				r.denyAddress.add(p)
			}
		}
	default:
		return fmt.Errorf("unknown access %q for domain pattern %q", access, text)
	}
	return nil
}

// errHost is the error of Normalize.
var errHost = errors.New("neither a host name nor an address")

// Normalize returns a host in the form that rules compare: a name in ASCII, in lower case
// and without a trailing dot, or an address in its shortest form. Anything else is an
// error: also an address with a zone, and a name that ends in a number but is not an
// address, because programs do not agree about its meaning.
func Normalize(s string) (string, error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if a, err := netip.ParseAddr(inner); ok && err == nil && a.Is6() && a.Zone() == "" {
			return a.Unmap().String(), nil
		}
		return "", errHost
	}
	if len(s) > host.MaxName+1 {
		return "", errHost
	}
	if strings.Contains(s, ":") {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			return a.Unmap().String(), nil
		}
		return "", errHost
	}
	if !host.IsASCII(s) {
		name, err := asciiName(s, host.ToASCII)
		if err != nil {
			return "", errHost
		}
		s = name
	}
	name := lowerASCII(strings.TrimSuffix(s, "."))
	if a, ok := host.ParseIPv4(name); ok {
		return a.String(), nil
	}
	if !host.ValidName(name) {
		return "", errHost
	}
	return name, nil
}

// localhost is the only name that a rule without wildcards opens although it is local.
const localhost = "localhost"

// Decide decides about a query by its name. Before it dials, the caller must also call
// Address for each address of the name. If the decision is Open and the client allows the
// host, Guard must still be called; Address does that too.
//
// The order is part of the protocol: denied, local, not allowed, mode; for SOCKS the mode
// comes first.
func (r *Rules) Decide(q Query) Decision {
	if q.Protocol != HTTP && q.Protocol != Connect {
		if d := r.Guard(q); !d.Allowed {
			return d
		}
	}
	host, err := Normalize(q.Host)
	if err != nil {
		return Decision{Source: Baseline, Reason: NotAllowed}
	}
	address, err := netip.ParseAddr(host)
	isAddress := err == nil
	if rule, ok := r.deny.find(host, q.Port); ok {
		return Decision{Source: Baseline, Reason: Denied, Rule: rule.pattern}
	}
	if isAddress {
		if d := r.denies(address, q.Port); !d.Allowed {
			return d
		}
	}
	if host == localhost {
		address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if isAddress || host == localhost {
		if d := r.opens(host, q.Port, address); !d.Allowed {
			return d
		}
	}
	if rule, ok := r.review.find(host, q.Port); ok {
		return Decision{Open: true, Source: Baseline, Reason: NotAllowed, Rule: rule.pattern}
	}
	rule, ok := r.allow.find(host, q.Port)
	if !ok {
		return Decision{Open: true, Source: Baseline, Reason: NotAllowed}
	}
	if d := r.Guard(q); !d.Allowed {
		return d
	}
	return Decision{Allowed: true, Source: Baseline, Rule: rule.pattern}
}

// Guard decides by the mode alone.
func (r *Rules) Guard(q Query) Decision {
	if r.mode == Full {
		return Decision{Allowed: true, Source: ModeGuard}
	}
	reason := MethodNotAllowed
	switch q.Protocol {
	case HTTP:
		switch q.Method { // methods are case-sensitive
		case "GET", "HEAD", "OPTIONS":
			return Decision{Allowed: true, Source: ModeGuard}
		}
	case Connect:
		reason = MitmRequired
	}
	return Decision{Source: ModeGuard, Reason: reason}
}

// Address decides whether an address may be dialled for a query that Decide, or the
// client, has allowed. A name that resolves to a private or denied address does not make
// that address reachable.
func (r *Rules) Address(q Query, a netip.Addr) Decision {
	host, err := Normalize(q.Host)
	if err != nil || !a.IsValid() {
		return Decision{Source: Baseline, Reason: NotAllowedLocal}
	}
	a = a.WithZone("").Unmap()
	if d := r.denies(a, q.Port); !d.Allowed {
		return d
	}
	if literal, err := netip.ParseAddr(host); err == nil && literal != a {
		return Decision{Source: Baseline, Reason: NotAllowedLocal} // an address resolves to itself
	}
	if d := r.opens(host, q.Port, a); !d.Allowed {
		return d
	}
	if d := r.Guard(q); !d.Allowed {
		return d
	}
	return Decision{Allowed: true, Source: Baseline}
}

// denies decides whether an address, or one embedded in it, is denied.
func (r *Rules) denies(a netip.Addr, port uint16) Decision {
	for {
		if rule, ok := r.denyAddress.find(a.String(), port); ok {
			return Decision{Source: Baseline, Reason: Denied, Rule: rule.pattern}
		}
		inner, ok := embedded(a)
		if !ok {
			return Decision{Allowed: true}
		}
		a = inner
	}
}

// opens decides whether an address is public, or opened for host.
func (r *Rules) opens(host string, port uint16, a netip.Addr) Decision {
	where := locate(a)
	switch {
	case where.reach == public, where.reach == private && r.local:
		return Decision{Allowed: true}
	case host == a.String(), host == localhost && a.IsLoopback():
		if r.allow.names(host, port) {
			return Decision{Allowed: true}
		}
	}
	return Decision{Source: Baseline, Reason: NotAllowedLocal, Rule: where.String()}
}
