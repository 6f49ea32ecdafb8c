package unifiedexec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/shellword"
	"github.com/tetherexec/tether/internal/slots"
)

// earlyExitGrace is how long a process has to run before it becomes a session.
const earlyExitGrace = 150 * time.Millisecond

// Notes of results: of the first result of a second attempt, and of a result without a second
// attempt because of a refusal.
const (
	noteRunAgain    = "after an approval the command was run again from its beginning, %s; the output is that of the second run"
	noteNotRunAgain = "%s: the command was not run again %s"
)

// silenceTimeout bounds the question why a process is silent.
const silenceTimeout = time.Second

// A session is a command from the call to its end, over all of its attempts. Its lock
// belongs to the call that is using it.
type session struct {
	m       *Manager
	id      int
	request request
	lock    slots.Slots // has a value while it is locked
	used    uint64      // guarded by m.mu

	// The following fields are guarded by the lock.
	state    state
	facts    facts
	stored   bool
	failure  error
	refusal  string   // why the last question was declined
	notes    []string // for the next result
	question Question // the last one

	alive context.Context // ends when the session is killed: then there is no further attempt
	kill  context.CancelFunc

	mu      sync.Mutex
	attempt *attempt // the present one; nil before the first
}

func newSession(m *Manager) *session {
	s := &session{m: m, lock: slots.New(1)}
	s.alive, s.kill = context.WithCancel(context.Background())
	return s
}

// A call has the parameters of one tool call for a session.
type call struct {
	tool  string
	began time.Time
	yield time.Duration
	limit limit
}

func (s *session) current() *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempt
}

func (s *session) tryLock() bool                     { return s.lock.TryTake() }
func (s *session) isLocked() bool                    { return len(s.lock) > 0 }
func (s *session) unlock()                           { s.lock.Free() }
func (s *session) lockFor(ctx context.Context) error { return s.lock.Take(ctx) }

// info describes the session.
func (s *session) info() SessionInfo {
	r := &s.request
	i := SessionInfo{ID: s.id, EnvironmentID: r.environment.ID, CallID: r.callID, Command: r.argv, Script: r.script, Cwd: r.cwd, TTY: r.tty}
	if a := s.current(); a != nil {
		i.ProcessID, i.Started = a.id, a.started
		if _, exit, _ := a.outcome(); exit != nil {
			i.ExitCode = &exit.Code
		}
	}
	return i
}

// advance takes the session from an event through its states until the call has a result. If the
// context ends, the session stays in its state.
func (s *session) advance(ctx context.Context, e event, c call) (*Result, error) {
	for {
		var err error
		act, next := step(s.state, e, s.facts)
		s.state = next
		switch act {
		case proceed:
			e = enter
		case ask, askRetry:
			e = s.ask(ctx, act == askRetry)
		case remember:
			s.m.approvals.add(s.request.key, s.extent())
			e = enter
		case startConfined:
			e, err = s.start(ctx, s.request.bounds, c)
		case startNetworked:
			e, err = s.start(ctx, s.request.bounds.withNetwork(), c)
		case startOpen:
			e, err = s.start(ctx, bounds{}, c)
		case reportAlive:
			r := s.report(c, true)
			r.SessionID = s.id
			if r.text == "" {
				r.Notes = append(r.Notes, s.silence(ctx)...)
			}
			return r, nil
		default:
			return s.finish(act, c)
		}
		if err != nil {
			return nil, err
		}
	}
}

// extent is how far an approval of the last question goes.
func (s *session) extent() extent {
	switch {
	case s.question.Network:
		return withNetwork
	case s.question.Retry || s.facts.bypass:
		return withoutSandbox
	}
	return inSandbox
}

// more is the additional right of a second attempt, in a few words.
func (s *session) more() string {
	if s.facts.network {
		return "with the network"
	}
	return "without the sandbox"
}

// finish ends the session with its last result.
func (s *session) finish(act action, c call) (r *Result, err error) {
	s.m.drop(s)
	switch act {
	case rejectByRule:
		err = rejected(fmt.Sprintf("`%s` rejected: %s", shellword.Join(s.request.argv), s.request.rejection))
	case rejectByUser:
		s.observe(Event{Kind: Ended, Session: s.info(), Attempt: 1, Status: StatusDeclined, ExitCode: -1})
		err = rejected(s.refusal)
	case abort:
		err = ErrInterrupted
	case reportNotRetried:
		s.notes = append(s.notes, fmt.Sprintf(noteNotRunAgain, s.refusal, s.more()))
		fallthrough
	case reportEnd:
		r = s.report(c, false)
		what, exit, _ := s.current().outcome()
		r.ExitCode, r.Usage = &exit.Code, exit.Usage
		if exit.Usage != nil && exit.Usage.MemoryKill != nil {
			r.Notes = append(r.Notes, "killed: "+exit.Usage.MemoryKill.Text())
		}
		if what == sandboxDenied {
			r.Denied, r.Denial, r.Network, r.Declined = true, exit.Denial, s.facts.network, act == reportNotRetried
			r.Hosts = s.current().refusedHosts()
		}
	default: // fail
		err = s.failure
	}
	s.dismiss(s.current())
	return r, err
}

// report makes a result from the output so far. more means that more output may come.
func (s *session) report(c call, more bool) *Result {
	a := s.current()
	r := newResult(a.take(more), c.limit, s.m.config.Budget.limit())
	r.WallTime, r.Notes, r.ProcessID = time.Since(c.began), append(s.notes, a.hosts.takeNotes()...), a.id
	s.notes = nil
	return r
}

// silence returns a note about why the process prints nothing, if the executor knows.
func (s *session) silence(ctx context.Context) []string {
	explainer, ok := s.current().process.(SilenceExplainer)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, silenceTimeout)
	defer cancel()
	if text, err := explainer.ExplainSilence(ctx); err == nil && text != "" {
		return []string{text}
	}
	return nil
}

// ask asks the user. If the call's context ends first, or the session is killed, the
// question is withdrawn, and an answer that comes later is not used.
func (s *session) ask(ctx context.Context, retry bool) event {
	r := &s.request
	q := Question{EnvironmentID: r.environment.ID, SessionID: s.id, CallID: r.callID, Command: r.argv, Script: r.script,
		Cwd: r.cwd, Permissions: r.permissions, Additional: r.additional, Rule: r.rule, Reason: r.reason, Retry: retry}
	if retry {
		a := s.current()
		q.Reason, q.Output = reasonRetry, a.transcript()
		if s.facts.network {
			q.Network, q.Hosts, q.Reason, q.Rule = true, a.refusedHosts(), reasonNetwork, nil // a rule is for runs without sandbox
		}
		if _, exit, _ := a.outcome(); exit != nil {
			q.Denial = exit.Denial
		}
	}
	s.question, s.refusal = q, reasonUser
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	resume := s.m.clock.pause()
	d, err := s.m.approve(asking, q)
	resume()
	switch {
	case ctx.Err() != nil:
		return cancelled
	case s.alive.Err() != nil:
		s.refusal = "the session was killed"
		return declined
	case err != nil:
		s.refusal = "the user could not be asked: " + err.Error()
		return declined
	case d == ApprovedRule:
		s.m.approvals.addRule(q.Rule)
		s.facts.approved = true
		return approved
	}
	e := d.event()
	s.facts.approved = s.facts.approved || e == approved || e == approvedForSession
	return e
}

// approve asks the approver. When the context ends, it returns even if Approve has not returned
// yet; then only the approver owns that goroutine.
func (m *Manager) approve(ctx context.Context, q Question) (d Decision, err error) {
	answered := make(chan struct{})
	var answer Decision // Declined if the approver ends its goroutine
	var failure error
	go func() { // ends with Approve
		defer close(answered)
		answer, failure = m.config.Approver.Approve(ctx, q)
	}()
	select {
	case <-answered:
		return answer, failure
	case <-ctx.Done():
		return Declined, context.Cause(ctx)
	}
}

// start makes an attempt in these bounds and waits for its outcome.
func (s *session) start(ctx context.Context, b bounds, c call) (event, error) {
	if s.alive.Err() != nil {
		return exited, nil // killed after a denial
	}
	if s.m.closing.Err() != nil || ctx.Err() != nil {
		return s.notStarted(ctx, "", ErrClosed)
	}
	old := s.current()
	number := 1
	if old != nil {
		number = old.number + 1
		s.dismiss(old)
		s.notes = append(s.notes, fmt.Sprintf(noteRunAgain, s.more()))
	}
	r := &s.request
	config := &s.m.config
	id := fmt.Sprintf("%d-%s", s.id, randomUUID())
	hosts := s.newHostDesk(ctx, b.network)
	if hosts != nil {
		b.network = hosts.network(*b.network)
	}
	p, err := r.environment.Executor.Start(ctx, client.Command{
		ID: id, Argv: r.argv, Dir: r.cwd, TTY: r.tty, OneStream: true, Sandbox: b.sandbox, Network: b.network, Limits: r.environment.Limits,
		Env: config.overlay(b), EnvPolicy: config.environmentPolicy(), Metadata: config.metadata(r.callID),
	})
	if err != nil {
		hosts.end()
		return s.notStarted(ctx, id, err)
	}
	if l, ok := p.(LimitReporter); ok {
		s.notes = append(s.notes, l.Limits().Shortfalls(r.environment.Limits)...)
	}
	a := newAttempt(number, id, p)
	a.closedNetwork, a.hosts = restrictsNetwork(b.sandbox), hosts
	s.mu.Lock()
	s.attempt = a
	s.mu.Unlock()
	s.m.adopt(s, a)
	if s.alive.Err() != nil { // killed meanwhile: Kill has not seen this attempt
		s.dismiss(a)
	}
	if p.SandboxType() == noSandbox && mustConfine(b.sandbox) {
		s.dismiss(a)
		return s.notStarted(ctx, id, errors.New("the executor does not apply the sandbox that was asked for"))
	}
	// The process runs while the user is asked, perhaps about a host that it wants to reach.
	over, err := a.await(ctx, (&pausableClock{}).in(earlyExitGrace), exitOnly)
	if err == nil && !over && !s.stored {
		var notes []string
		notes, err = s.m.store(s)
		s.stored, s.notes = err == nil, append(s.notes, notes...)
	}
	if err != nil && !s.stored { // no later call could find it
		s.state = end
		s.dismiss(a)
	}
	if err != nil {
		return lost, err
	}
	return s.wait(ctx, c)
}

// notStarted notes why there is no process with this id. If the context of the call has ended, it
// returns that error.
func (s *session) notStarted(ctx context.Context, id string, err error) (event, error) {
	if ctx.Err() != nil {
		s.state = end
		s.m.drop(s)
		return lost, context.Cause(ctx)
	}
	s.failure = maybeCreated(err, id)
	return notStarted, nil
}

// wait waits for the end of the present attempt, for as long as the call wants, and returns the
// outcome.
func (s *session) wait(ctx context.Context, c call) (event, error) {
	a := s.current()
	if _, err := a.await(ctx, s.m.clock.in(c.yield), wholeEnd); err != nil {
		return alive, err
	}
	e, _, cause := a.outcome()
	switch e {
	case lost:
		s.failure = processFailed(c.tool, cause)
	case sandboxDenied:
		s.facts.network = a.neededNetwork()
	}
	return e, nil
}

// dismiss terminates an attempt in the background. If its output has ended, it does nothing:
// processes that the command has left running on purpose live on.
func (s *session) dismiss(a *attempt) {
	if a != nil && !a.isOver() {
		s.m.tasks.Go(a.terminate)
	}
}

// adopt reads the output of an attempt in a task until it ends. Only calls begin tasks: Close
// waits for the calls before it waits for the tasks.
func (m *Manager) adopt(s *session, a *attempt) {
	m.mu.Lock()
	m.attempts[a] = struct{}{}
	m.mu.Unlock()
	m.tasks.Go(func() { // ends with the output, or with m.reading
		s.follow(m.reading, a)
		a.hosts.end()
		m.mu.Lock()
		delete(m.attempts, a)
		m.mu.Unlock()
	})
}

// follow reads the output of an attempt and calls the observer.
func (s *session) follow(ctx context.Context, a *attempt) {
	about := Event{Session: s.infoOf(a), Attempt: a.number, Sandboxed: a.process.SandboxType() != noSandbox}
	tell := func(kind EventKind, text string) {
		e := about
		e.Kind, e.Text = kind, text
		s.observe(e)
	}
	tell(Began, "")
	a.pump(ctx, func(text string) { tell(Output, text) })
	e := about
	e.Kind, e.Output, e.Took = Ended, a.transcript(), time.Since(a.started)
	what, exit, err := a.outcome()
	switch {
	case exit == nil:
		e.Status, e.ExitCode = StatusFailed, -1
		if err != nil {
			e.Output += "\n" + err.Error()
		}
	default:
		e.Status, e.ExitCode, e.Denied, e.Usage = StatusCompleted, exit.Code, what == sandboxDenied, exit.Usage
		if exit.Code != 0 {
			e.Status = StatusFailed
		}
	}
	s.observe(e)
}

// infoOf is info at the beginning of an attempt.
func (s *session) infoOf(a *attempt) SessionInfo {
	i := s.info()
	i.ProcessID, i.Started, i.ExitCode = a.id, a.started, nil
	return i
}

func (s *session) observe(e Event) {
	if s.m.config.Observe != nil {
		s.m.config.Observe(e)
	}
}
