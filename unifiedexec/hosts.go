package unifiedexec

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

const (
	// hostAnswerTime is how long a connection to a host waits for the user's answer.
	hostAnswerTime = 10 * time.Minute

	// maxHostQuestions is about how many hosts one attempt may ask. A command that tries any number of hosts must
	// not ask the user any number of questions.
	maxHostQuestions = 16
)

// Reasons of refused hosts, which the proxy tells the command.
const (
	reasonHostUser = "rejected by user"
	reasonHostMany = "too many hosts"
	reasonHostOver = "the command has ended"
)

// A hostDesk asks the user about hosts that one attempt wants to reach and no rule of its environment decides about. Each host
// is asked about once. The connection waits meanwhile.
type hostDesk struct {
	session *session
	ctx     context.Context // has the values of the call that makes the attempt; ends with the attempt
	cancel  context.CancelFunc

	mu      sync.Mutex
	answers map[string]*hostAnswer // by HOST:PORT
	refused bool                   // the user has refused a host
	notes   []string               // for the next result
}

// A hostAnswer is the answer to one question, as soon as given is closed.
type hostAnswer struct {
	given   chan struct{}
	allowed bool
	reason  string
}

// newHostDesk returns a desk for an attempt of a call, or nil if the user is not asked about its hosts.
func (s *session) newHostDesk(call context.Context, network *client.Network) *hostDesk {
	if network == nil || network.Ask != 0 || !s.m.config.Policy.asksRetry() {
		return nil
	}
	d := &hostDesk{session: s, answers: make(map[string]*hostAnswer)}
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(call))
	return d
}

// end withdraws the questions: the attempt has ended.
func (d *hostDesk) end() {
	if d != nil {
		d.cancel()
	}
}

// network returns the network of an attempt whose hosts are asked about here.
func (d *hostDesk) network(n client.Network) *client.Network {
	n.Ask, n.Decide = hostAnswerTime, d.decide
	return &n
}

// decide answers a question of the executor. Its context ends when the connection to the executor is lost.
func (d *hostDesk) decide(ctx context.Context, q wire.NetworkQuestion) client.NetworkDecision {
	host := net.JoinHostPort(q.Host, strconv.Itoa(int(q.Port)))
	a, mine := d.find(host)
	switch {
	case a == nil:
		return client.NetworkDecision{Type: string(wire.NetworkDeny), Reason: reasonHostMany}
	case mine:
		d.answer(ctx, host, a)
	}
	select {
	case <-a.given:
	case <-ctx.Done():
		return client.NetworkDecision{Type: string(wire.NetworkDeny), Reason: reasonHostOver}
	}
	if a.allowed {
		return client.NetworkDecision{Type: string(wire.NetworkAllow)}
	}
	return client.NetworkDecision{Type: string(wire.NetworkDeny), Reason: a.reason}
}

// find returns the answer about a host, and whether the caller has to give it; nil: too many hosts.
func (d *hostDesk) find(host string) (a *hostAnswer, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a = d.answers[host]; a != nil || len(d.answers) == maxHostQuestions {
		return a, false
	}
	a = &hostAnswer{given: make(chan struct{})}
	d.answers[host] = a
	return a, true
}

// answer gives the answer about a host: an approval of the session, or what the user says. The user gets one question at a time,
// because the answer to one may be the answer to the next.
func (d *hostDesk) answer(ctx context.Context, host string, a *hostAnswer) {
	asking, cancel := context.WithCancel(d.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	defer close(a.given)
	m, r := d.session.m, &d.session.request
	if err := m.hostQuestions.Take(asking); err != nil {
		d.forget(host, a)
		return
	}
	defer m.hostQuestions.Free()
	key := keyOf(r.environment.ID, host)
	if a.allowed = m.approvals.allowsHost(key); a.allowed {
		return
	}
	resume := m.clock.pause()
	answer, err := m.approve(asking, Question{EnvironmentID: r.environment.ID, SessionID: d.session.id, CallID: r.callID, Command: r.argv, Script: r.script,
		Cwd: r.cwd, Permissions: r.permissions, Additional: r.additional, Host: host, Reason: reasonHost, Keep: r.environment.KeepHost != nil})
	resume()
	switch {
	case asking.Err() != nil:
		d.forget(host, a)
		return
	case err != nil:
		a.reason = "the user could not be asked"
	case answer == ApprovedForSession, answer == ApprovedForGood:
		a.allowed = true
		m.approvals.allowHost(key)
		if answer == ApprovedForGood && r.environment.KeepHost != nil {
			if err := r.environment.KeepHost(host); err != nil {
				d.note(fmt.Sprintf("%s is allowed for this session only: %v", host, err))
			}
		}
	case answer == Approved, answer == ApprovedRule:
		a.allowed = true
	default:
		a.reason = reasonHostUser
		d.mu.Lock()
		d.refused = true
		d.mu.Unlock()
		d.note("the user did not let the command reach " + host)
	}
}

// note leaves a note for the next result.
func (d *hostDesk) note(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, text)
}

// takeNotes returns the notes that are in no result yet.
func (d *hostDesk) takeNotes() []string {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	notes := d.notes
	d.notes = nil
	return notes
}

// userRefused reports whether the user has refused a host. Then a failure for want of the network is what the user wants.
func (d *hostDesk) userRefused() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

// forget makes a host one that was not asked about, because the question was withdrawn.
func (d *hostDesk) forget(host string, a *hostAnswer) {
	a.reason = reasonHostOver
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.answers, host)
}
