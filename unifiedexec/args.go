package unifiedexec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/tetherexec/tether/internal/wording"
)

// SandboxPermissions is the kind of rights that a command asks for beyond its sandbox.
type SandboxPermissions string

// The values of SandboxPermissions. The zero value is UseDefault.
const (
	UseDefault       SandboxPermissions = "use_default"
	RequireEscalated SandboxPermissions = "require_escalated"           // no sandbox
	WithAdditional   SandboxPermissions = "with_additional_permissions" // a wider sandbox
)

// ExecArgs are the arguments of exec_command.
type ExecArgs struct {
	Cmd             string `json:"cmd" jsonschema:"Shell command to execute."`
	Workdir         string `json:"workdir,omitempty" jsonschema:"Directory to run the command in; a relative path begins in the default one."`
	Shell           string `json:"shell,omitempty" jsonschema:"Shell to run the command with: a name or an absolute path. Defaults to the shell of the environment."`
	Login           *bool  `json:"login,omitempty" jsonschema:"True runs the shell as a login shell, which reads the user's profile. Defaults to true if login shells are allowed."`
	TTY             bool   `json:"tty,omitempty" jsonschema:"True gives the command a terminal, which also keeps its standard input open. Defaults to false."`
	YieldTimeMs     *int64 `json:"yield_time_ms,omitempty" jsonschema:"How long to wait for the end of the command before it goes on as a session, in milliseconds. Defaults to 10000; at least 250, at most 30000."`
	MaxOutputTokens *int   `json:"max_output_tokens,omitempty" jsonschema:"Output beyond this many tokens is truncated. Defaults to 10000."`

	SandboxPermissions    SandboxPermissions     `json:"sandbox_permissions,omitempty" jsonschema:"use_default runs the command in the sandbox; require_escalated asks the user to run it without the sandbox; with_additional_permissions asks the user for what additional_permissions names. Defaults to use_default."`
	AdditionalPermissions *AdditionalPermissions `json:"additional_permissions,omitempty" jsonschema:"What the sandbox should allow in addition; only with sandbox_permissions with_additional_permissions."`
	Justification         string                 `json:"justification,omitempty" jsonschema:"Why the command needs it, as a question to the user; only with sandbox_permissions require_escalated or with_additional_permissions."`
	PrefixRule            []string               `json:"prefix_rule,omitempty" jsonschema:"First words of the command. The user may approve all later commands that begin with them."`

	EnvironmentID string `json:"environment_id,omitempty" jsonschema:"Environment to run in. Defaults to the primary one."`

	// CallID names the call in events, questions and the command's environment.
	CallID string `json:"-"`
}

// StdinArgs are the arguments of write_stdin.
type StdinArgs struct {
	SessionID       int    `json:"session_id" jsonschema:"Identifier of the running session."`
	Chars           string `json:"chars,omitempty" jsonschema:"Text to write to standard input. Empty waits for output. Without a terminal only \\u0003 is accepted, which interrupts the command."`
	YieldTimeMs     *int64 `json:"yield_time_ms,omitempty" jsonschema:"How long to wait for the end of the command before the output so far is returned, in milliseconds. Defaults to 250; without chars at least 5000."`
	MaxOutputTokens *int   `json:"max_output_tokens,omitempty" jsonschema:"Output beyond this many tokens is truncated. Defaults to 10000."`
}

// ParseExecArgs reads the arguments that a model has written. Members that are not
// known are ignored.
func ParseExecArgs(text []byte) (ExecArgs, error) {
	var a ExecArgs
	err := parse(text, &a, "cmd")
	return a, err
}

// ParseStdinArgs reads the arguments that a model has written.
func ParseStdinArgs(text []byte) (StdinArgs, error) {
	var a StdinArgs
	err := parse(text, &a, "session_id")
	return a, err
}

func parse(text []byte, args interface{ check() error }, required string) error {
	var members map[string]json.RawMessage
	err := json.Unmarshal(text, &members)
	if err == nil {
		err = json.Unmarshal(text, args)
	}
	err = wording.JSON(err)
	if raw, found := members[required]; err == nil && (!found || bytes.Equal(raw, []byte("null"))) {
		err = wording.Missing(required)
	}
	if err == nil {
		err = args.check()
	}
	if err != nil {
		return badArguments("failed to parse function arguments: %v", err)
	}
	return nil
}

func (a *ExecArgs) check() error {
	switch a.SandboxPermissions {
	case "", UseDefault, RequireEscalated, WithAdditional:
	default:
		return fmt.Errorf("`sandbox_permissions` must be %s, %s or %s, not %q", UseDefault, RequireEscalated, WithAdditional, a.SandboxPermissions)
	}
	return checkNumbers(a.YieldTimeMs, a.MaxOutputTokens)
}

func (a *StdinArgs) check() error {
	if a.SessionID != int(int32(a.SessionID)) {
		return fmt.Errorf("`session_id` is not the number of a session: %d", a.SessionID)
	}
	return checkNumbers(a.YieldTimeMs, a.MaxOutputTokens)
}

func checkNumbers(yield *int64, tokens *int) error {
	if yield != nil && *yield < 0 {
		return fmt.Errorf("`yield_time_ms` must not be negative: %d", *yield)
	}
	if tokens != nil && *tokens < 0 {
		return fmt.Errorf("`max_output_tokens` must not be negative: %d", *tokens)
	}
	return nil
}

// Times for which calls wait for output.
const (
	defaultYield      = 10 * time.Second
	defaultStdinYield = 250 * time.Millisecond
	minYield          = 250 * time.Millisecond
	maxYield          = 30 * time.Second
	minYieldWindows   = 10 * time.Second // processes start slowly there
	minPoll           = 5 * time.Second  // so that a model that only polls does not poll often
	defaultMaxPoll    = 5 * time.Minute
)

// execYield is how long exec_command waits.
func execYield(ms *int64, windows bool) time.Duration {
	least := minYield
	if windows {
		least = minYieldWindows
	}
	return min(max(asked(ms, defaultYield), least), maxYield)
}

// stdinYield is how long write_stdin waits: after a write or, polling, for at most
// maxPoll.
func stdinYield(ms *int64, polling bool, maxPoll time.Duration) time.Duration {
	wait := max(asked(ms, defaultStdinYield), minYield)
	if !polling {
		return min(wait, maxYield)
	}
	if maxPoll == 0 {
		maxPoll = defaultMaxPoll
	}
	return min(max(wait, minPoll), max(maxPoll, minPoll))
}

func asked(ms *int64, otherwise time.Duration) time.Duration {
	if ms == nil {
		return otherwise
	}
	return time.Duration(min(*ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
