package session

import "time"

const (
	// keepClosed is how long a process can still be read after its close was sent.
	keepClosed = 30 * time.Second

	// confirmInterval is how often HeardSince is called again if the peer has been
	// silent since the close was sent: the close may be lost.
	confirmInterval = 5 * time.Second

	// keepResumed is the least time that a client has to read a closed process
	// after a resume. It is longer than resumeQuiet, after which the process is
	// pushed.
	keepResumed = 2 * resumeQuiet
)

// A retention holds the processes whose close was sent, in that order, until they
// are forgotten. Its clock stops while the session is detached. A process is
// forgotten only if the client was heard since the close was sent. So a client that
// has lost its connection loses nothing, whether the server has noticed that or
// not.
type retention struct {
	waiting   []closedProcess
	pausedFor time.Duration // how long the clock was stopped so far
	paused    time.Time     // since when the clock is stopped; zero while it runs
	timer     *time.Timer
}

type closedProcess struct {
	process *Process
	sent    time.Time
	at      time.Time // by the clock of the retention
}

func (r *retention) clock(now time.Time) time.Time {
	if !r.paused.IsZero() {
		now = r.paused
	}
	return now.Add(-r.pausedFor)
}

func (r *retention) pause(now time.Time) {
	if r.paused.IsZero() {
		r.paused = now
	}
	r.stop()
}

func (r *retention) resume(now time.Time) {
	if !r.paused.IsZero() {
		r.pausedFor += now.Sub(r.paused)
		r.paused = time.Time{}
	}
	least := r.clock(now).Add(keepResumed)
	for i, e := range r.waiting {
		if e.at.Before(least) {
			r.waiting[i].at = least
		}
	}
}

func (r *retention) stop() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// closeDelivered is called once per process, when the client has got its close.
func (s *Session) closeDelivered(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.closeSent = true
	r := &s.retention
	now := time.Now()
	r.waiting = append(r.waiting, closedProcess{p, now, r.clock(now).Add(keepClosed)})
	s.scheduleForgetLocked()
}

// scheduleForgetLocked sets the timer for the first process of the queue.
func (s *Session) scheduleForgetLocked() {
	r := &s.retention
	if s.ended || r.timer != nil || len(r.waiting) == 0 || !r.paused.IsZero() {
		return
	}
	r.timer = time.AfterFunc(r.waiting[0].at.Sub(r.clock(time.Now())), s.forgetDue)
}

func (s *Session) forgetDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.retention
	r.stop()
	now := r.clock(time.Now())
	for !s.ended && r.paused.IsZero() && len(r.waiting) > 0 && !r.waiting[0].at.After(now) {
		if !s.holder.attachment.peer.HeardSince(r.waiting[0].sent) { // a peer is attached, because the clock runs
			r.waiting[0].at = now.Add(confirmInterval)
			break
		}
		s.forgetLocked(r.waiting[0].process)
		r.waiting = r.waiting[1:]
	}
	s.scheduleForgetLocked()
}

// forgetLocked removes a closed process. Processes that it left running continue
// until the session ends.
func (s *Session) forgetLocked(p *Process) {
	delete(s.processes.byID, p.ID)
	p.Log.End()
	s.processes.keep(p.child)
}
