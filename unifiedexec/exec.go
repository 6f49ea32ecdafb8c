package unifiedexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// writePause is how long a call waits after a write, so that the program can react to the input.
const writePause = 100 * time.Millisecond

// interruptChars is the only input for a process without a terminal. It is not written, but
// interrupts the process.
const interruptChars = "\x03"

// A request is a command with everything that is needed to run it.
type request struct {
	environment *Environment
	callID      string
	argv        []string
	script      string
	cwd         string
	tty         bool
	bounds      bounds // of confined attempts
	permissions SandboxPermissions
	additional  *AdditionalPermissions

	reason    string   // for the user
	rejection string   // for the model
	rule      []string // the rule that the user may approve; nil: none
	key       string   // equal for equal commands
}

// ExecCommand runs a command and returns its output when it ends. If the time to wait is over
// before, it returns the output so far, and the command goes on as a session. An error is a
// [ToolError] with the text for the model, [ErrInterrupted], [ErrClosed], or the error of the
// context. If the context ends while a session runs, the session stays.
func (m *Manager) ExecCommand(ctx context.Context, args ExecArgs) (*Result, error) {
	return m.call(ctx, func(ctx context.Context) (*Result, error) { return m.execCommand(ctx, args) })
}

func (m *Manager) execCommand(ctx context.Context, args ExecArgs) (*Result, error) {
	began := time.Now()
	if err := args.check(); err != nil {
		return nil, badArguments("failed to parse function arguments: %v", err)
	}
	environment, err := m.environment(args.EnvironmentID)
	if err != nil {
		return nil, err
	}
	if err := m.config.ShellMode.check(environment); err != nil {
		return nil, err
	}
	if args.Justification != "" && args.SandboxPermissions == "" {
		return nil, badArguments("`justification` requires an explicit `sandbox_permissions`; " +
			"use `sandbox_permissions: \"require_escalated\"` for unsandboxed execution, or omit `justification`.")
	}
	if args.AdditionalPermissions != nil && cmp.Or(args.SandboxPermissions, UseDefault) == UseDefault {
		args.SandboxPermissions = WithAdditional // additional_permissions imply it
	}
	info, err := environment.Executor.Info(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, notCreated(err)
	}
	s := newSession(m)
	s.lock <- struct{}{} // held until the result
	defer s.unlock()
	if err := s.prepare(environment, info, args); err != nil {
		return nil, err
	}
	if s.id, err = m.reserve(); err != nil {
		return nil, err
	}
	defer m.release(s.id)
	c := call{ToolExecCommand, began, execYield(args.YieldTimeMs, goos(info) == "windows"), m.config.Budget.with(args.MaxOutputTokens)}
	return s.advance(ctx, enter, c)
}

// prepare sets the request and the facts of a session from the arguments.
func (s *session) prepare(e *Environment, info wire.EnvironmentInfo, args ExecArgs) error {
	m, system := s.m, goos(info)
	shell, err := e.chooseShell(system, args.Shell, info.Shell)
	if err != nil {
		return err
	}
	login := !m.config.NoLogin
	if args.Login != nil {
		if *args.Login && m.config.NoLogin {
			return badArguments("login shell is disabled by config; omit `login` or set it to false.")
		}
		login = *args.Login
	}
	if err := m.checkPermissions(e, args); err != nil {
		return err
	}
	root, err := e.Dir(info)
	if err != nil {
		return notCreated(err)
	}
	args.AdditionalPermissions = args.AdditionalPermissions.within(system, root)
	s.request = request{
		environment: e, callID: args.CallID, argv: shellArgv(shell, login, args.Cmd), script: args.Cmd,
		cwd: resolve(system, root, args.Workdir), tty: args.TTY, bounds: e.bounds(system, root, args.AdditionalPermissions),
		permissions: cmp.Or(args.SandboxPermissions, UseDefault), additional: args.AdditionalPermissions,
	}
	s.judge(args)
	return nil
}

// Dir is the directory in which commands start, on an executor with this description.
func (e *Environment) Dir(info wire.EnvironmentInfo) (string, error) {
	system, other := goos(info), "windows"
	if system == other {
		other = "linux"
	}
	own := "/"
	if info.Cwd != nil {
		own = *info.Cwd
	}
	own, err := native(system, own)
	if err != nil {
		return "", fmt.Errorf("directory of the executor: %w", err)
	}
	dir, err := native(system, e.Cwd)
	switch {
	case err != nil:
		return "", err
	case dir == "":
		dir = own
	case isAbsolute(system, dir), isAbsolute(other, dir), info.Cwd == nil: // absolute, or refused below
	case system == "windows":
		dir = resolve(system, own, dir)
	default:
		dir = path.Join(own, dir)
	}
	if !isAbsolute(system, dir) {
		return "", fmt.Errorf("%s is not an absolute path on the executor, which is a %s machine", dir, system)
	}
	return dir, nil
}

// checkPermissions refuses arguments that ask for rights which cannot be granted.
func (m *Manager) checkPermissions(e *Environment, args ExecArgs) error {
	asksMore := args.SandboxPermissions == RequireEscalated || args.SandboxPermissions == WithAdditional
	switch {
	case asksMore && m.config.Policy.Mode == Never:
		return badArguments("approval policy is Never; reject command — you cannot ask for escalated permissions if the approval policy is Never")
	case args.SandboxPermissions != WithAdditional && args.AdditionalPermissions != nil:
		return badArguments("`additional_permissions` requires `sandbox_permissions` set to `with_additional_permissions`")
	case args.SandboxPermissions != WithAdditional:
		return nil
	case !m.config.AdditionalPermissions:
		return badArguments("additional permissions are disabled; enable `features.exec_permission_approvals` before using `with_additional_permissions`")
	case args.AdditionalPermissions == nil:
		return badArguments("missing `additional_permissions`; provide at least one of `network` or `file_system` when using `with_additional_permissions`")
	case args.AdditionalPermissions.empty():
		return badArguments("`additional_permissions` must include at least one requested permission in `network` or `file_system`")
	case args.AdditionalPermissions.FileSystem != nil && deniesReads(e.Sandbox):
		return badArguments("`additional_permissions` cannot change a policy that hides files")
	}
	return nil
}

// judge sets the facts that decide how a command is run.
func (s *session) judge(args ExecArgs) {
	m, r := s.m, &s.request
	parts, plain := parseScript(args.Cmd)
	whole := parts
	if !plain {
		whole = [][]string{r.argv}
	}
	q := inquiry{
		restricted: restrictsFiles(r.environment.Sandbox) || restrictsNetwork(r.environment.Sandbox) || r.environment.Network != nil,
		escalation: r.permissions != UseDefault,
	}
	for _, part := range parts {
		q.dangerous = q.dangerous || dangerous(part)
	}
	var why string
	if m.config.Rules != nil {
		q.verdict, why = m.config.Rules(parts, plain)
	}
	if q.verdict == RuleNone && m.approvals.allows(whole) {
		q.verdict = RuleAllow
	}
	r.key = keyOf(r.environment.ID, r.argv, r.cwd, r.tty, r.permissions, r.additional)
	known := m.approvals.find(r.key)

	policy := m.config.Policy
	s.facts = facts{
		bypass:      q.verdict == RuleAllow || r.permissions == RequireEscalated || known == withoutSandbox,
		deniedReads: deniesReads(r.bounds.sandbox), confined: r.bounds.sandbox != nil,
		asksRetry: policy.asksRetry(), strict: policy.Strict,
		approved: known == inSandbox || known == withoutSandbox, // an approval of the network does not allow a run without sandbox
		network:  known == withNetwork,
	}
	s.facts.requirement, r.rejection = policy.require(q)
	if s.facts.requirement == approval && known != 0 {
		s.facts.requirement = skip
	}
	r.reason = args.Justification
	if why != "" {
		r.reason = why
		if s.facts.requirement == forbidden {
			r.rejection = why
		}
	}
	if r.permissions != WithAdditional { // a rule would allow runs without sandbox, not a wider one
		r.rule = proposeRule(args.PrefixRule, whole, plain)
	}
}

// WriteStdin writes to the process of a session, or polls it if Chars is empty, and returns the
// output since the last result. Errors are as for ExecCommand.
func (m *Manager) WriteStdin(ctx context.Context, args StdinArgs) (*Result, error) {
	return m.call(ctx, func(ctx context.Context) (*Result, error) { return m.writeStdin(ctx, args) })
}

func (m *Manager) writeStdin(ctx context.Context, args StdinArgs) (*Result, error) {
	began := time.Now()
	if err := args.check(); err != nil {
		return nil, badArguments("failed to parse function arguments: %v", err)
	}
	s, err := m.find(args.SessionID)
	if err != nil {
		return nil, err
	}
	if err := s.lockFor(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	if again, err := m.find(args.SessionID); err != nil || again != s { // it has ended while this call waited
		return nil, cmp.Or(err, unknownSession(args.SessionID, ""))
	}
	c := call{ToolWriteStdin, began, stdinYield(args.YieldTimeMs, args.Chars == "", m.config.MaxPoll), m.config.Budget.with(args.MaxOutputTokens)}
	if args.Chars != "" {
		if err := s.write(ctx, args.Chars); err != nil {
			return nil, err
		}
	}
	e, err := s.wait(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.advance(ctx, e, c)
}

// write sends input to the process.
func (s *session) write(ctx context.Context, chars string) error {
	a := s.current()
	var err error
	switch {
	case s.request.tty:
		err = a.process.Write(ctx, []byte(chars))
	case chars == interruptChars:
		a.expectFailure()
		err = a.process.Interrupt(ctx)
	default:
		return &ToolError{Tool: ToolWriteStdin, Kind: ErrStdinClosed,
			Message: "stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"}
	}
	if err == nil {
		if s.request.tty {
			_, err = a.await(ctx, s.m.clock.in(writePause), exitOnly)
		}
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if over, _ := a.await(ctx, s.m.clock.in(writePause), exitOnly); over {
		return nil // the process has just ended, and the result will say so
	}
	if errors.Is(err, client.ErrUnknownProcess) || errors.Is(err, client.ErrStdinClosed) {
		return &ToolError{Tool: ToolWriteStdin, Kind: ErrWriteStdin, Message: "failed to write to stdin", Cause: err}
	}
	s.m.drop(s)
	s.dismiss(a)
	return processFailed(ToolWriteStdin, err)
}
