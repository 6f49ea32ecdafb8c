package wire

// DescribeParams asks for facts about a process of any session.
type DescribeParams struct {
	ProcessID string  `json:"processId"`
	SessionID *string `json:"sessionId,omitempty"`
}

// Limits of a description. Above them it is cut, and says so.
const (
	MaxDescribedArgv  = 64 << 10 // bytes of argv
	MaxDescribedRules = 256      // places of a sandbox and exceptions in them; patterns of hosts
	MaxDescribedHosts = 256      // different decisions about hosts
)

// DescribeResult answers tether/process/describe. It never has values of environment variables.
type DescribeResult struct {
	Process    ProcessInfo    `json:"process"` // as in a list without its usage, but with up to MaxDescribedArgv bytes of argv
	Arg0       *string        `json:"arg0,omitempty"`
	PipeStdin  bool           `json:"pipeStdin"`
	OneStream  bool           `json:"oneStream"`
	KeepNewest bool           `json:"keepNewest"`
	Metadata   *StartMetadata `json:"metadata,omitempty"` // as in StartParams

	Sandbox SandboxFacts `json:"sandbox"`
	Network NetworkFacts `json:"network"`
	Text    []string     `json:"text"` // sandbox and network for people, line by line, as `tether sandbox explain` prints them

	Decisions     []HostDecision `json:"decisions"`                              // about hosts so far, in the order in which they came first
	MoreDecisions uint64         `json:"moreDecisions,omitempty" wire:"default"` // decisions that are not among them
	Limits        *LimitsInForce `json:"limits,omitempty"`                       // nil: there are none
	SandboxDenied bool           `json:"sandboxDenied,omitempty" wire:"default"` // from here on: as in ProcessExited
	TetherDenial  *DenialFact    `json:"tetherDenial,omitempty"`                 //
	TetherLimit   *string        `json:"tetherLimit,omitempty"`                  //
	TetherFailure *string        `json:"tetherFailure,omitempty"`                //
}

// SandboxFacts say what the sandbox of a process lets it do with files.
type SandboxFacts struct {
	Type      string         `json:"type"` // as in StartResult; "none": there is no sandbox, and the process has the rights of the server
	FullRead  bool           `json:"fullRead"`
	FullWrite bool           `json:"fullWrite"`
	Readable  []SandboxPlace `json:"readable"`                         // all other paths are hidden; nothing is listed if FullWrite
	Writable  []SandboxPlace `json:"writable"`                         // likewise, for changes
	Partial   bool           `json:"partial,omitempty" wire:"default"` // some places or exceptions are left out, or the rules are not kept any more
}

// A SandboxPlace is a directory or file with all that is below it.
type SandboxPlace struct {
	Path   string        `json:"path"` // in the form of the executor's system
	Except []SandboxRule `json:"except"`
}

// A SandboxRule is an exception in a place.
type SandboxRule struct {
	Path   string `json:"path"`
	Access string `json:"access"` // deny, read or write
	Rule   string `json:"rule"`   // where it comes from, for people
}

// Values of NetworkFacts.Type.
const (
	NetworkOff       = "off"
	NetworkOfMachine = "machine"
	NetworkByProxy   = "proxy"   // a proxy is offered to the process, which can reach other hosts without it
	NetworkManaged   = "managed" // proxies are the only way out
)

// NetworkFacts say what the network of a process lets it reach.
type NetworkFacts struct {
	Type    string   `json:"type"`
	Mode    *string  `json:"mode,omitempty"` // of its proxy, see NetworkMode; nil: it has no proxy of the server
	Allow   []string `json:"allow"`          // patterns of hosts
	Deny    []string `json:"deny"`
	Asks    bool     `json:"asks"`                             // the client decides about hosts that no pattern matches
	Partial bool     `json:"partial,omitempty" wire:"default"` // some patterns are left out
}

// A HostDecision is a decision about a host that a process wanted to reach, and how often it was made.
type HostDecision struct {
	Host     string  `json:"host"`
	Port     uint16  `json:"port"`
	Protocol string  `json:"protocol"` // as in NetworkQuestion
	Decision string  `json:"decision"` // allow, deny or ask
	Source   string  `json:"source"`   // as in NetworkDecision, like the members below
	Reason   string  `json:"reason"`
	Rule     *string `json:"rule,omitempty"`
	Address  *string `json:"address,omitempty"`
	Count    uint64  `json:"count"`
	FirstMs  int64   `json:"firstMs"` // Unix time
	LastMs   int64   `json:"lastMs"`
}
