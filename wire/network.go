package wire

// This file has the network of a process: which hosts it may reach, and questions and reports
// about that.

// Messages about the network of a process, to the client.
const (
	MethodNetworkPolicyRequest = "network/policyRequest" // a request: may it reach this host?
	NoteNetworkPolicyDecision  = "network/policyDecision"
)

// ManagedNetwork names ports and sockets that stay reachable when the sandbox blocks the network.
type ManagedNetwork struct {
	LoopbackPorts                  []uint16 `json:"loopbackPorts" wire:"default"`
	AllowLocalBinding              bool     `json:"allowLocalBinding" wire:"default"`
	DangerouslyAllowAllUnixSockets bool     `json:"dangerouslyAllowAllUnixSockets" wire:"default"`
}

// NetworkProxy asks for a proxy that serves the process alone.
type NetworkProxy struct {
	Proxy         NetworkProxySettings `json:"proxy"`
	AuditMetadata AuditMetadata        `json:"auditMetadata" wire:"default"`
	EnvironmentID *string              `json:"environmentId"`
	ExecutionID   *string              `json:"executionId"`

	// PolicyDecisionTimeoutMs: if it is not 0, the client is asked about hosts that no rule
	// decides, and has this long to answer.
	PolicyDecisionTimeoutMs *uint64 `json:"policyDecisionTimeoutMs"`
}

// NetworkProxySettings are the rules of a proxy.
type NetworkProxySettings struct {
	Enabled                        bool        `json:"enabled"`
	EnableSocks5                   bool        `json:"enableSocks5"`
	EnableSocks5UDP                bool        `json:"enableSocks5Udp"`
	AllowUpstreamProxy             bool        `json:"allowUpstreamProxy"`
	DangerouslyAllowAllUnixSockets bool        `json:"dangerouslyAllowAllUnixSockets"`
	Mode                           NetworkMode `json:"mode"`

	// Domains says for each pattern whether the hosts that it matches may be reached.
	Domains     *DomainRules `json:"domains"`
	UnixSockets *SocketRules `json:"unixSockets"`

	AllowLocalBinding bool `json:"allowLocalBinding"`

	// ReviewDomains are patterns of hosts that the client decides about, even if Domains
	// allows them.
	ReviewDomains []string `json:"reviewDomains,omitempty" wire:"default"`

	// TetherPorts: a pattern with a port matches only that port. Without TetherPorts, as in the
	// reference, the port is ignored.
	TetherPorts *bool `json:"tetherPorts,omitempty"`
}

// NetworkMode restricts the requests to hosts that may be reached.
type NetworkMode string

// The values of NetworkMode.
const (
	NetworkModeLimited NetworkMode = "limited"
	NetworkModeFull    NetworkMode = "full"
)

func (NetworkMode) variants() []string { return []string{"limited", "full"} }

// DomainAccess is the rule for the hosts that a pattern matches.
type DomainAccess string

// The values of DomainAccess.
const (
	DomainNone  DomainAccess = "none"
	DomainAllow DomainAccess = "allow"
	DomainDeny  DomainAccess = "deny"
)

func (DomainAccess) variants() []string { return []string{"none", "allow", "deny"} }

// DomainRules are patterns of hosts.
type DomainRules map[string]DomainAccess

func (r *DomainRules) decodeWire(d *decoder) (err error) {
	*r, err = decodeVariants[DomainAccess](d)
	return err
}

// SocketAccess is the rule for a unix socket.
type SocketAccess string

// The values of SocketAccess.
const (
	SocketAllow SocketAccess = "allow"
	SocketDeny  SocketAccess = "deny"
)

func (SocketAccess) variants() []string { return []string{"allow", "deny"} }

// SocketRules are paths of unix sockets.
type SocketRules map[string]SocketAccess

func (r *SocketRules) decodeWire(d *decoder) (err error) {
	*r, err = decodeVariants[SocketAccess](d)
	return err
}

// decodeVariants decodes a map whose values are variants.
func decodeVariants[V interface {
	~string
	enum
}](d *decoder) (map[string]V, error) {
	var word V
	m := make(map[string]V)
	err := d.members("a map", func(key []byte) error {
		s, err := d.variant(word.variants())
		m[string(key)] = V(s)
		return err
	})
	return m, err
}

// AuditMetadata names the user and the program for which a process runs.
type AuditMetadata struct {
	ConversationID *string `json:"conversationId"`
	AppVersion     *string `json:"appVersion"`
	UserAccountID  *string `json:"userAccountId"`
	AuthMode       *string `json:"authMode"`
	Originator     *string `json:"originator"`
	UserEmail      *string `json:"userEmail"`
	TerminalType   *string `json:"terminalType"`
	Model          *string `json:"model"`
	Slug           *string `json:"slug"`
}

// NetworkPolicyParams asks the client about a host that no rule decides.
type NetworkPolicyParams struct {
	ProcessID string          `json:"processId"`
	Request   NetworkQuestion `json:"request"`
}

// A NetworkQuestion is about one attempt to reach a host.
type NetworkQuestion struct {
	Protocol string `json:"protocol"` // http, https_connect, socks5_tcp or socks5_udp
	Host     string `json:"host"`
	Port     uint16 `json:"port"`
}

// NetworkPolicyResult is the client's answer.
type NetworkPolicyResult struct {
	Decision NetworkAnswer `json:"decision"`
}

// A NetworkAnswer allows an attempt or not. For a proxy, "ask" is "deny".
type NetworkAnswer struct {
	Type   NetworkAnswerType `json:"type"`
	Reason *string           `json:"reason,omitempty"` // of all but "allow"
}

// NetworkAnswerType is the kind of an answer.
type NetworkAnswerType string

// The values of NetworkAnswerType.
const (
	NetworkAllow NetworkAnswerType = "allow"
	NetworkDeny  NetworkAnswerType = "deny"
	NetworkAsk   NetworkAnswerType = "ask"
)

func (NetworkAnswerType) variants() []string { return []string{"allow", "deny", "ask"} }

// NetworkDecision reports a decision to the client.
type NetworkDecision struct {
	ProcessID      string  `json:"processId"`
	Timestamp      string  `json:"timestamp"` // RFC 3339 with milliseconds, UTC
	Scope          string  `json:"scope"`     // "domain" or "non_domain"
	Decision       string  `json:"decision"`  // "allow" or "deny"
	Source         string  `json:"source"`    // baseline_policy, mode_guard or decider
	Reason         string  `json:"reason"`
	Protocol       string  `json:"protocol"`
	Host           string  `json:"host"`
	Port           uint16  `json:"port"`
	Method         *string `json:"method,omitempty"`
	Client         *string `json:"client,omitempty"` // the process's end of the connection
	PolicyOverride bool    `json:"policyOverride"`   // the client has allowed it

	// tether: the pattern that decided and the address, where there is one.
	TetherRule    *string `json:"tetherRule,omitempty"`
	TetherAddress *string `json:"tetherAddress,omitempty"`
}
