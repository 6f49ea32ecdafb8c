// Package netpolicy decides which hosts a process may reach. It is rules and
// answers only: nothing here resolves, dials or listens.
package netpolicy

import "net/netip"

// Mode narrows what may be asked of a host that may be reached.
type Mode string

// The modes.
const (
	Full    Mode = "full"
	Limited Mode = "limited" // methods that only read, in the clear
)

// Access is what a pattern says about the hosts that it matches.
type Access string

// The values of Access.
const (
	Allow Access = "allow"
	Deny  Access = "deny" // wins over Allow
	None  Access = "none" // as if the pattern were not there
)

// Settings are rules as they are written down.
type Settings struct {
	Mode              Mode
	Domains           map[string]Access
	AllowLocalBinding bool // private and local addresses may be reached like others
}

// Rules are compiled settings. They do not change.
type Rules struct {
	settings Settings
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

// A Decision answers a Query.
type Decision struct {
	Allowed bool
	Open    bool   // denied only because no rule says anything: somebody else may be asked
	Source  Source // who decided
	Reason  string // why not; see the Reason constants
	Rule    string // the pattern that decided, if one did
}

// Source is who made a decision.
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
)

// Compile checks settings and makes rules of them.
func Compile(s Settings) (*Rules, error) { return &Rules{s}, nil }

// Normalize returns a host in the form that rules compare: a name in lower case without
// a trailing dot, or an address in its shortest form. What is neither is an error.
func Normalize(host string) (string, error) { return host, nil }

// Decide answers a query as far as its name goes. Whoever dials must also ask Address
// about each address that the name stands for.
func (r *Rules) Decide(q Query) Decision { return Decision{} }

// Address decides whether an address may be dialled for a query that Decide, or somebody
// who was asked, has allowed. A name does not become a way to a private address by
// resolving to one.
func (r *Rules) Address(q Query, a netip.Addr) Decision { return Decision{} }
