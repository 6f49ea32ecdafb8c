package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
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
	Instance string   `json:"instance"` // tells two executors with the same name apart; see NewID
	Process  string   `json:"process"`  // the process that serves now; another one may go on with the sessions. See NewID
	Labels   []string `json:"labels,omitempty"`
	Version  string   `json:"version"`  // of tether
	Capacity int      `json:"capacity"` // how many commands the machine is made for: the load is measured against it; at least 1
	Running  int      `json:"running"`  // commands
	Sessions int      `json:"sessions"`
	Load     float64  `json:"load"`              // of the machine in the last minute, per processor
	Sandbox  string   `json:"sandbox,omitempty"` // which backend confines commands; "none": they cannot be confined; "": not known yet
	Draining bool     `json:"draining,omitempty"`
	Leaving  bool     `json:"leaving,omitempty"` // it is the last message of this process
}

// Limits of what a host says about itself.
const (
	maxVersion  = 128
	maxSandbox  = 128
	maxCapacity = 1 << 20
)

// Check refuses a description that the host with that name cannot have. The host may be hostile.
func (h *Host) Check(name string) error {
	switch {
	case h.Name != name:
		return fmt.Errorf("host %s describes a host %q", name, h.Name)
	case !isID(h.Instance) || !isID(h.Process):
		return errors.New("the description of a host has no valid instance or process")
	case h.Capacity < 1 || h.Capacity > maxCapacity || h.Running < 0 || h.Sessions < 0 || !(h.Load >= 0):
		return errors.New("the description of a host has numbers out of range")
	case len(h.Version) > maxVersion || !isPlain(h.Version) || len(h.Sandbox) > maxSandbox || !isPlain(h.Sandbox):
		return errors.New("the description of a host has too long texts, or control characters")
	}
	return errors.Join(CheckHostName(h.Name), CheckLabels(h.Labels))
}

// isPlain reports whether a text can be printed on a terminal as it is.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// isID reports whether s has the form of a NewID.
func isID(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*idSize && strings.ToLower(s) == s
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
	TTLMs     uint64 `json:"ttlMs"`     // how long it lives without a client
}

// TTL is how long the session lives without a client.
func (s Session) TTL() time.Duration { return time.Duration(s.TTLMs) * time.Millisecond }

// Limits of what gateways and hosts tell each other about a link.
const (
	maxOpen      = 4 << 10 // bytes of an Open
	maxPrincipal = 512
	maxPeer      = 256
	maxWindow    = 1 << 30
)

// An Open tells a host which client a new link is for.
type Open struct {
	Principal string `json:"principal"`
	ReadOnly  bool   `json:"readOnly"` // see listen.Client
	Admin     bool   `json:"admin,omitempty"`
	Peer      string `json:"peer"`    // the client's address, for the log
	Window    int    `json:"window"`  // of both directions, in bytes
	Session   string `json:"session"` // key of the session that the client resumes; "": it does not
	Epoch     uint64 `json:"epoch"`   // of that session
}

// DecodeOpen decodes an Open.
func DecodeOpen(b []byte) (o Open, err error) {
	if len(b) > maxOpen {
		return o, fmt.Errorf("%d bytes are too many to open a link", len(b))
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return o, err
	}
	if len(o.Principal) > maxPrincipal || len(o.Peer) > maxPeer || o.Window < 0 || o.Window > maxWindow || o.Session != "" && !isSessionKey(o.Session) {
		return o, errors.New("values are out of range")
	}
	return o, nil
}

// Attached is what a host tells a gateway beside the stream of a link, before it answers initialize: the link belongs to a session.
type Attached struct {
	Session string `json:"session"` // its key
	TTLMs   uint64 `json:"ttlMs"`   // how long it lives without a client
}

// DecodeAttached decodes an Attached. The host may be hostile.
func DecodeAttached(b []byte) (a Attached, err error) {
	if err := json.Unmarshal(b, &a); err != nil {
		return a, err
	}
	if !isSessionKey(a.Session) || a.TTLMs > uint64(MaxSessionTTL.Milliseconds()) {
		return a, errors.New("values are out of range")
	}
	return a, nil
}

// MaxSessionTTL is more than any session lives without a client.
const MaxSessionTTL = 366 * 24 * time.Hour

// isSessionKey reports whether s has the form of a SessionKey.
func isSessionKey(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*sha256.Size && strings.ToLower(s) == s
}

// CheckSessionKey refuses what is not the key of a session.
func CheckSessionKey(s string) error {
	if !isSessionKey(s) {
		return errors.New("the key of a session is malformed")
	}
	return nil
}
