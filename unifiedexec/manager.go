package unifiedexec

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	randv2 "math/rand/v2"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// An Environment is an executor with a directory and a sandbox for commands.
type Environment struct {
	ID       string // its name in calls and questions
	Executor Executor

	// Local means that the executor runs on this machine, so that the manager can look for a
	// shell. On other machines only the shell that the executor reports can be used.
	Local bool

	// Cwd is the directory in which commands start, and the workspace of the sandbox: an
	// absolute path, a file: URI, or a path below the directory of the executor; empty: that
	// directory.
	Cwd string

	// Sandbox is the sandbox of commands: a portable intent, which the executor enforces on
	// its own system. nil or disabled: no sandbox. If it names no workspace, that is Cwd.
	Sandbox *wire.Sandbox

	// Network, if set, has the hosts that commands in the Sandbox may reach; it replaces the
	// Sandbox's own setting of the network. Commands that are approved to have the network
	// reach all hosts. If the policy has questions after denials, and Network.Ask is 0, the
	// Approver is asked about a host that no pattern matches while the command waits for it.
	Network *client.Network

	// KeepHost, if set, remembers a HOST:PORT that the user has allowed for good. The next
	// program that makes an Environment adds it to Network.Allow.
	KeepHost func(host string) error

	// Limits, if set, are those of each command with everything that it starts. An executor that cannot enforce them
	// refuses commands, unless they say BestEffort. Then the results have notes about the limits that do not hold.
	Limits *wire.Limits
}

// Config is how commands are run. The zero value of each field but Environments works.
type Config struct {
	Environments []Environment // the first one is the default

	Policy   Policy
	Approver Approver // needed unless the policy never asks

	// Rules, if set, judges a command by its parts; plain is false if the parts are not
	// all that it does. The reason of a verdict is shown to the user or the model.
	Rules func(parts [][]string, plain bool) (v Verdict, reason string)

	// Budget limits the output in one result.
	Budget Budget

	ShellMode             ShellMode     // how shells are run
	NoLogin               bool          // shells are not login shells
	AdditionalPermissions bool          // calls may ask for a wider sandbox
	MaxPoll               time.Duration // the longest poll; 5 minutes if zero

	// Env is added to the environment of commands, which EnvPolicy makes from the executor's
	// own. Without a policy, commands inherit everything.
	Env       map[string]string
	EnvPolicy *wire.EnvPolicy
	Identity  Identity

	// Observe, if set, is called with the events of processes, in order for each process. While
	// it waits, the output of that process is not read.
	Observe func(Event)
}

// Limits of the table of sessions.
const (
	maxSessions  = 64  // a soft limit: sessions that are in use are not closed
	protected    = 8   // the most recently used ones are never closed
	maxPruned    = 256 // closed sessions that are remembered
	minSessionID = 1000
	maxSessionID = 99999
)

// endTimeout is how long to wait for the end of a process.
const endTimeout = 5 * time.Second

// A Manager runs commands for one model. It is safe for concurrent use.
type Manager struct {
	config        Config
	approvals     approvals
	hostQuestions slots.Slots // has a value while the user is asked about a host
	clock         pausableClock

	closing context.Context // ends, because of ErrClosed, when Close begins
	close   context.CancelCauseFunc
	calls   sync.WaitGroup // tool calls under way; only they start attempts and tasks

	reading    context.Context // ends, because of ErrClosed, when Close has ended all attempts
	endReading context.CancelCauseFunc
	tasks      sync.WaitGroup // readers of output, and terminations
	ended      chan struct{}  // closed when Close has finished

	mu       sync.Mutex
	closed   bool
	reserved map[int]struct{} // ids of commands that are being started
	sessions map[int]*session
	attempts map[*attempt]struct{} // whose output is being read
	pruned   []int                 // ids, oldest first
	uses     uint64
}

// New makes a manager.
func New(c Config) (*Manager, error) {
	seen := make(map[string]bool)
	for _, e := range c.Environments {
		if e.Executor == nil {
			return nil, fmt.Errorf("environment %q has no executor", e.ID)
		}
		if e.Network != nil && !confines(e.Sandbox) {
			return nil, fmt.Errorf("environment %q has hosts that commands may reach, but no sandbox", e.ID)
		}
		if seen[e.ID] {
			return nil, fmt.Errorf("two environments are called %q", e.ID)
		}
		seen[e.ID] = true
	}
	if c.Policy.asks() && c.Approver == nil {
		return nil, errors.New("the policy asks for approvals, but there is no approver")
	}
	m := &Manager{config: c, hostQuestions: slots.New(1), reserved: make(map[int]struct{}), sessions: make(map[int]*session), attempts: make(map[*attempt]struct{}), ended: make(chan struct{})}
	m.closing, m.close = context.WithCancelCause(context.Background())
	m.reading, m.endReading = context.WithCancelCause(context.Background())
	return m, nil
}

// Close ends all sessions with all their processes. Calls under way fail with [ErrClosed], and
// their questions to the user are withdrawn. Close returns when all of that is done, also if
// another call of Close has begun it; nothing starts afterwards. It does not wait for an executor
// that cannot be reached: commands there are ended when the connection is back, or with the
// executor's session.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		<-m.ended
		return nil
	}
	m.closed = true
	clear(m.sessions)
	m.mu.Unlock()
	m.close(ErrClosed)
	m.endAttempts()
	m.calls.Wait()
	m.endAttempts() // attempts that were being started
	m.endReading(ErrClosed)
	m.tasks.Wait()
	close(m.ended)
	return nil
}

// endAttempts terminates all attempts that have not ended, and waits for that.
func (m *Manager) endAttempts() {
	m.mu.Lock()
	left := maps.Clone(m.attempts)
	m.mu.Unlock()
	var ending sync.WaitGroup
	for a := range left {
		ending.Go(a.terminate)
	}
	ending.Wait()
}

// enter begins a call, which Close waits for: the caller calls leave at its end. The
// returned context also ends, because of ErrClosed, when Close begins.
func (m *Manager) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, ErrClosed
	}
	m.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(m.closing, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		m.calls.Done()
	}, nil
}

// call runs a tool call. Once Close has begun, the call fails whatever its result is: the exit
// code of a process that Close has ended means nothing.
func (m *Manager) call(ctx context.Context, do func(context.Context) (*Result, error)) (*Result, error) {
	ctx, leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	r, err := do(ctx)
	if m.closing.Err() != nil {
		return nil, ErrClosed
	}
	return r, err
}

// Pause stops the clocks of all calls that wait for output until the returned function is
// called. The manager does the same while it asks the user.
func (m *Manager) Pause() (resume func()) { return m.clock.pause() }

// environment finds the environment that a call names; empty: the default one.
func (m *Manager) environment(id string) (*Environment, error) {
	for i := range m.config.Environments {
		if e := &m.config.Environments[i]; id == "" || e.ID == id {
			return e, nil
		}
	}
	if id != "" {
		return nil, badArguments("unknown turn environment id `%s`", id)
	}
	return nil, badArguments("No usable execution environment is available. Wait for an environment to become available before using this tool.")
}

// reserve makes up an id that is not in use, and was not used recently.
func (m *Manager) reserve() (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, ErrClosed
	}
	for {
		id := minSessionID + randv2.IntN(maxSessionID-minSessionID+1)
		if _, taken := m.reserved[id]; !taken && m.sessions[id] == nil && !m.wasPruned(id) {
			m.reserved[id] = struct{}{}
			return id, nil
		}
	}
}

// release gives an id back.
func (m *Manager) release(id int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reserved, id)
}

// store adds a session to the table. If there are too many, it closes another one and returns a
// note about that for the model.
func (m *Manager) store(s *session) (notes []string, err error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	victim := m.pruneLocked()
	m.sessions[s.id] = s
	m.uses++
	s.used = m.uses
	delete(m.reserved, s.id)
	m.mu.Unlock()
	if victim != nil {
		victim.dismiss(victim.current())
		victim.unlock()
		notes = append(notes, fmt.Sprintf("session %d was closed: limit of %d sessions", victim.id, maxSessions))
	}
	return notes, nil
}

// drop removes a session from the table.
func (m *Manager) drop(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[s.id] == s {
		delete(m.sessions, s.id)
	}
}

// find returns a session and counts that as a use.
func (m *Manager) find(id int) (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[id]
	switch {
	case m.closed:
		return nil, ErrClosed
	case s != nil:
		m.uses++
		s.used = m.uses
		return s, nil
	case m.wasPruned(id):
		return nil, unknownSession(id, fmt.Sprintf("the session was closed by the limit of %d sessions", maxSessions))
	}
	return nil, unknownSession(id, "")
}

// A SessionInfo describes a session.
type SessionInfo struct {
	ID            int
	ProcessID     string // on the executor
	EnvironmentID string
	CallID        string
	Command       []string
	Script        string // the text for the shell in it
	Cwd           string
	TTY           bool
	Started       time.Time
	ExitCode      *int // nil: it is running; otherwise WriteStdin returns the rest
}

// Sessions lists the sessions, the oldest first.
func (m *Manager) Sessions() []SessionInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	infos := make([]SessionInfo, 0, len(m.sessions))
	for _, s := range m.sessions {
		infos = append(infos, s.info())
	}
	sortSessions(infos)
	return infos
}

// Kill ends the process of a session. The next poll returns the rest of its output.
func (m *Manager) Kill(ctx context.Context, id int) error {
	ctx, leave, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	s, err := m.find(id)
	if e, ok := errors.AsType[*ToolError](err); ok {
		e.Tool = ""
	}
	if err != nil {
		return err
	}
	s.kill()
	a := s.current()
	a.expectFailure()
	if err := a.process.Terminate(ctx); err != nil {
		return &ToolError{Kind: ErrProcessFailed, Message: fmt.Sprintf("it is unknown whether the process of session %d was ended: %v", id, err), Cause: err}
	}
	over, err := a.await(ctx, m.clock.in(endTimeout), exitOnly)
	if err == nil && !over {
		err = fmt.Errorf("session %d has not ended within %v", id, endTimeout)
	}
	return err
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// randomUUID is a random UUID of version 4.
func randomUUID() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
