package unifiedexec

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/tetherexec/tether/wire"
)

// An Approver asks a person. Approve may take any time, and several calls may run at the same
// time. If it fails, the command counts as declined. When its context ends, the question is
// withdrawn: the tool call continues without the answer, and Approve should return.
type Approver interface {
	Approve(context.Context, Question) (Decision, error)
}

// ApproverFunc is a function as an Approver.
type ApproverFunc func(context.Context, Question) (Decision, error)

// Approve calls the function.
func (f ApproverFunc) Approve(ctx context.Context, q Question) (Decision, error) { return f(ctx, q) }

// A Question is about one command.
type Question struct {
	EnvironmentID string
	SessionID     int
	CallID        string

	Reason  string   // why the question is asked
	Command []string // the command line that would be started
	Script  string   // the text for the shell in it
	Cwd     string

	// Retry: the sandbox has made the command fail, and it would run a second time, from its
	// beginning: without sandbox or, if Network is set, in the same sandbox with the
	// network. Denial, Hosts (refused hosts) and Output describe the first run.
	Retry   bool
	Network bool
	Hosts   []string
	Denial  *wire.DenialFact // may be nil
	Output  string

	// Host, if set, is a HOST:PORT that the running command wants to reach. It is not among the hosts of
	// the environment's Network, and the connection waits for the answer. Approved is for this
	// command, ApprovedForSession for all commands in this environment. If Keep is set,
	// ApprovedForGood is for later sessions, too.
	Host string
	Keep bool

	// Permissions is the kind of rights that the command asks for beyond its sandbox. If it is
	// WithAdditional, Additional has these rights, with absolute paths.
	Permissions SandboxPermissions
	Additional  *AdditionalPermissions

	// Rule is the first words of commands that ApprovedRule would approve from now on, to run
	// without sandbox. Without a Rule, ApprovedRule is the same as Approved.
	Rule []string
}

// A Decision answers a Question.
type Decision uint8

// The decisions.
const (
	Declined           Decision = iota // the model gets the refusal, and goes on
	Approved                           // this command, once
	ApprovedForSession                 // also when the same command comes again
	ApprovedRule                       // also all commands that begin with the question's Rule
	Cancelled                          // the turn ends
	ApprovedForGood                    // the question's Host, also in later sessions
)

func (d Decision) event() event {
	switch d {
	case Approved:
		return approved
	case ApprovedForSession, ApprovedRule, ApprovedForGood:
		return approvedForSession
	case Cancelled:
		return cancelled
	}
	return declined
}

// A Mode is when the user is asked.
type Mode uint8

// The modes.
const (
	Never     Mode = iota // a command that would need an approval is refused
	OnRequest             // for escalations, dangerous commands and rules
	Granular              // the same, with a switch for each kind of question; and after denials
	Untrusted             // for everything without an allow rule; and after denials
)

// A Policy says when the user is asked. The zero value is never.
type Policy struct {
	Mode Mode

	// For Granular: which questions may be asked.
	SandboxApproval bool // about dangerous commands, escalations and denials
	Rules           bool // of rules

	// Strict makes an approval before the first attempt count for that one only.
	Strict bool
}

// asks reports whether the policy has questions at all.
func (p Policy) asks() bool { return p.Mode != Never }

// asksRetry reports whether a denial leads to a question.
func (p Policy) asksRetry() bool {
	return p.Mode == Untrusted || p.Mode == Granular && p.SandboxApproval
}

// A Verdict is the result of the rules for a command.
type Verdict uint8

// The verdicts. RuleAllow means that each part of the command is allowed, and makes it
// run without sandbox.
const (
	RuleNone Verdict = iota
	RuleAllow
	RulePrompt
	RuleForbidden
)

// Reasons for the model or the user.
const (
	reasonRetry     = "command failed; retry without sandbox?"
	reasonNetwork   = "command failed; retry with network?"
	reasonHost      = "the command wants to reach a host that its network does not allow"
	reasonUser      = "rejected by user"
	reasonNever     = "approval required by policy, but AskForApproval is set to Never"
	reasonNoRules   = "approval required by policy, but questions about rules are off"
	reasonNoSandbox = "approval required by policy, but questions about the sandbox are off"
	reasonDangerous = "rm -f style commands are not permitted. Use a safer approach"
	reasonBlocked   = "blocked by policy"
)

// An inquiry has the facts for the first decision about a command.
type inquiry struct {
	verdict    Verdict
	dangerous  bool
	restricted bool // the sandbox restricts files or the network
	escalation bool // the command asks for more than the sandbox allows
}

// require decides whether a command may run. If it may not, it returns the reason.
func (p Policy) require(q inquiry) (requirement, string) {
	switch q.verdict {
	case RuleForbidden:
		return forbidden, reasonBlocked
	case RulePrompt:
		switch {
		case p.Mode == Never:
			return forbidden, reasonNever
		case p.Mode == Granular && !p.Rules:
			return forbidden, reasonNoRules
		}
		return approval, ""
	case RuleAllow:
		return skip, ""
	}
	switch {
	case q.dangerous && p.Mode == Never:
		return forbidden, reasonDangerous
	case p.Mode == Untrusted:
		return approval, ""
	case !q.dangerous && !(q.escalation && q.restricted):
		return skip, ""
	case p.Mode == Granular && !p.SandboxApproval:
		if q.dangerous {
			return forbidden, reasonDangerous
		}
		return forbidden, reasonNoSandbox
	case p.Mode == Never: // checkPermissions has refused it already
		return forbidden, reasonNever
	}
	return approval, ""
}

// maxRemembered bounds the approvals that are remembered. The oldest are dropped first, and the
// user is asked again.
const maxRemembered = 1000

// An extent is how far an approval goes.
type extent uint8

const (
	inSandbox      extent = iota + 1 // the command may run
	withNetwork                      // the same, and with the network
	withoutSandbox                   // the command may run without sandbox
)

// approvals are the approvals that are valid for longer than one command.
type approvals struct {
	mu    sync.Mutex
	keys  []string            // oldest first
	known map[string]extent   // by key
	rules map[string]struct{} // keys of rules; each is for runs without sandbox
	hosts map[string]struct{} // keys of environments with hosts
}

// add remembers an approval.
func (m *approvals) add(key string, e extent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = make(map[string]extent)
	}
	if was, found := m.known[key]; found {
		m.known[key] = max(was, e)
		return
	}
	if len(m.keys) == maxRemembered {
		delete(m.known, m.keys[0])
		m.keys = m.keys[1:]
	}
	m.keys = append(m.keys, key)
	m.known[key] = e
}

// find returns how far a command was approved; 0: it was not.
func (m *approvals) find(key string) extent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[key]
}

// allowHost remembers a host that the commands of an environment may reach.
func (m *approvals) allowHost(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hosts == nil {
		m.hosts = make(map[string]struct{})
	}
	if len(m.hosts) < maxRemembered {
		m.hosts[key] = struct{}{}
	}
}

// allowsHost reports whether allowHost was called with a key.
func (m *approvals) allowsHost(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.hosts[key]
	return found
}

// addRule remembers a rule.
func (m *approvals) addRule(rule []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rules == nil {
		m.rules = make(map[string]struct{})
	}
	if len(m.rules) < maxRemembered && len(rule) > 0 {
		m.rules[keyOf(rule)] = struct{}{}
	}
}

// allows reports whether each part of a command begins as a rule says.
func (m *approvals) allows(parts [][]string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(parts) > 0 && !slices.ContainsFunc(parts, func(part []string) bool {
		for n := 1; n <= len(part); n++ {
			if _, found := m.rules[keyOf(part[:n])]; found {
				return false
			}
		}
		return true
	})
}

// keyOf makes one string from values.
func keyOf(values ...any) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings and plain structs
	}
	return string(text)
}
