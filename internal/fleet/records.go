package fleet

import (
	"slices"
	"time"
)

// Times of leases.
const (
	// BeatInterval is how often a host renews its lease and says that it is reachable.
	BeatInterval = 5 * time.Second
	// LeaseTime is how long a host counts as reachable without a renewal, and how long its name is reserved.
	LeaseTime = 15 * time.Second
)

// A Host is what the directory says about an executor.
type Host struct {
	Name     string   `json:"name"`
	Instance string   `json:"instance"` // tells two executors with the same name apart
	Labels   []string `json:"labels,omitempty"`
	Version  string   `json:"version"`  // of tether
	Capacity int      `json:"capacity"` // how many commands may run at a time before it counts as full; at least 1
	Running  int      `json:"running"`  // commands
	Sessions int      `json:"sessions"`
	Load     float64  `json:"load"`              // of the machine in the last minute, per processor
	Sandbox  string   `json:"sandbox,omitempty"` // which sandboxes work, in the words of the doctor
	Draining bool     `json:"draining,omitempty"`
}

// HasLabels reports whether the host has all of the labels. A label KEY is also matched by KEY=VALUE.
func (h *Host) HasLabels(labels []string) bool {
	for _, label := range labels {
		if !slices.ContainsFunc(h.Labels, func(has string) bool {
			return has == label || len(has) > len(label) && has[:len(label)] == label && has[len(label)] == '='
		}) {
			return false
		}
	}
	return true
}

// A Session is what the directory says about a session.
type Session struct {
	Host      string `json:"host"`
	Epoch     uint64 `json:"epoch"`     // grows with each connection of its client; the host accepts none with an old one
	Principal string `json:"principal"` // which client it belongs to; see listen.Client
}
