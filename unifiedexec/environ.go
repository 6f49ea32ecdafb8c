package unifiedexec

import (
	"maps"
	"slices"

	"github.com/tetherexec/tether/wire"
)

// forcedVariables make programs suitable for use without a person: no colours, no pagers, one
// encoding. They are always sent.
var forcedVariables = map[string]string{
	"NO_COLOR":  "1",
	"TERM":      "dumb",
	"LANG":      "C.UTF-8",
	"LC_CTYPE":  "C.UTF-8",
	"LC_ALL":    "C.UTF-8",
	"COLORTERM": "",
	"PAGER":     "cat",
	"GIT_PAGER": "cat",
	"GH_PAGER":  "cat",
	"CODEX_CI":  "1",
}

// noNetworkVariable tells a command that its sandbox has no network.
const noNetworkVariable = "CODEX_SANDBOX_NETWORK_DISABLED"

// Variables that name the caller. The executor adds a variable for the call, from the metadata of
// a start.
const (
	threadVariable  = "CODEX_THREAD_ID"
	sessionVariable = "CODEX_SESSION_ID"
	versionVariable = "CODEX_VERSION"
)

// An Identity names the caller to its commands. Empty fields are not sent.
type Identity struct {
	ThreadID  string
	SessionID string
	Version   string
}

// overlay returns the variables that are added to those of the policy, for a command in these
// bounds.
func (c *Config) overlay(b bounds) map[string]string {
	env := maps.Clone(c.Env)
	if env == nil {
		env = make(map[string]string)
	}
	maps.Copy(env, forcedVariables)
	for name, value := range map[string]string{
		threadVariable: c.Identity.ThreadID, sessionVariable: c.Identity.SessionID, versionVariable: c.Identity.Version,
	} {
		if value != "" {
			env[name] = value
		}
	}
	delete(env, noNetworkVariable)
	if restrictsNetwork(b.sandbox) && b.network == nil {
		env[noNetworkVariable] = "1"
	}
	return env
}

// environmentPolicy returns the policy for the executor's variables. noNetworkVariable is never
// inherited: overlay sets it where it is true.
func (c *Config) environmentPolicy() *wire.EnvPolicy {
	p := wire.EnvPolicy{Inherit: wire.InheritAll, IgnoreDefaultExcludes: true, Set: map[string]string{}, IncludeOnly: []string{}}
	if c.EnvPolicy != nil {
		p = *c.EnvPolicy
	}
	p.Exclude = append(slices.Clone(p.Exclude), noNetworkVariable)
	if _, found := p.Set[noNetworkVariable]; found {
		p.Set = maps.Clone(p.Set)
		delete(p.Set, noNetworkVariable)
	}
	if p.Set == nil {
		p.Set = map[string]string{}
	}
	if p.IncludeOnly == nil {
		p.IncludeOnly = []string{}
	}
	return &p
}

// metadata names the thread and the call; the executor puts both into variables.
func (c *Config) metadata(callID string) *wire.StartMetadata {
	if c.Identity.ThreadID == "" && callID == "" {
		return nil
	}
	m := new(wire.StartMetadata)
	if c.Identity.ThreadID != "" {
		m.ThreadID = &c.Identity.ThreadID
	}
	if callID != "" {
		m.ToolCallID = &callID
	}
	return m
}
