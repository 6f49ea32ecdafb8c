package wire

// HostsPath is the page of a gateway, below the path of its URL, that lists the hosts of its fleet.
const HostsPath = "/hosts"

// FleetHosts is the content of the page.
type FleetHosts struct {
	Hosts []FleetHost `json:"hosts"` // in the order of their names
}

// A FleetHost is an executor of a fleet.
type FleetHost struct {
	Name     string   `json:"name"`
	State    string   `json:"state"` // HostReachable, HostDraining or HostUnreachable
	Labels   []string `json:"labels"`
	Running  int      `json:"running"`  // commands
	Capacity int      `json:"capacity"` // how many commands the machine is made for
	Sessions int      `json:"sessions"`
	Load     float64  `json:"load"` // of the machine in the last minute, per processor
	Version  string   `json:"version"`
	Sandbox  string   `json:"sandbox"` // which backend confines commands; "none": they cannot be confined; "": not known yet
}

// States of hosts.
const (
	HostReachable   = "reachable"
	HostDraining    = "draining"    // reachable, and gets no new sessions, except with QueryDraining
	HostUnreachable = "unreachable" // not heard of for some seconds
)

// Parameters of the URL of a gateway.
const (
	QueryHost  = "host"  // the name of the host for a new session
	QueryLabel = "label" // a label that the host has; can be repeated

	// QueryDraining is "true" in the URL of a client that starts no commands: its session may be on a host that is draining.
	QueryDraining = "draining"
)
