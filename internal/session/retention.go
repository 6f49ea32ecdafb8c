package session

import "time"

const (
	// keepClosed is how long a process can still be read after its close was
	// delivered: sent or, to a client that acknowledges, acknowledged.
	keepClosed = 30 * time.Second

	// confirmInterval is how often HeardSince is called again if the peer has been
	// silent since the close was delivered: a close that was sent may be lost.
	confirmInterval = 5 * time.Second

	// keepResumed is the least time that a client has to read a closed process
	// after a resume. It is longer than resumeQuiet, after which the process is
	// pushed.
	keepResumed = 2 * resumeQuiet
)

// A retention holds the processes whose close was delivered, until they are
// forgotten. Its clock stops while the session is detached. A process is forgotten
// only if the client was heard since the close was delivered. So a client that has
// lost its connection loses nothing, whether the server has noticed that or not.
type retention struct {
	waiting   []closedProcess // in the order in which their closes were delivered
	pausedFor time.Duration   // how long the clock was stopped so far
	paused    time.Time       // since when the clock is stopped; zero while it runs
	timer     *time.Timer
}

type closedProcess struct {
	process   *Process
	delivered time.Time // when its close was delivered
	due       time.Time // when it may be forgotten, by the clock of the retention
}

// clock returns the time of the retention's clock: now, less the time for which the
// clock was stopped.
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
	r.stopTimer()
}

// resume lets the clock run again. Every process is kept for at least keepResumed from
// now on.
func (r *retention) resume(now time.Time) {
	if !r.paused.IsZero() {
		r.pausedFor += now.Sub(r.paused)
		r.paused = time.Time{}
	}
	least := r.clock(now).Add(keepResumed)
	for i, e := range r.waiting {
		if e.due.Before(least) {
			r.waiting[i].due = least
		}
	}
}

func (r *retention) stopTimer() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// closeDelivered is called once per process, when its close is delivered.
func (s *Session) closeDelivered(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.closeDelivered = true
	r := &s.retention
	now := time.Now()
	r.waiting = append(r.waiting, closedProcess{p, now, r.clock(now).Add(keepClosed)})
	s.scheduleForgetLocked()
}

// scheduleForgetLocked sets the timer for the first process that waits.
func (s *Session) scheduleForgetLocked() {
	r := &s.retention
	if s.ended || r.timer != nil || len(r.waiting) == 0 || !r.paused.IsZero() {
		return
	}
	r.timer = time.AfterFunc(r.waiting[0].due.Sub(r.clock(time.Now())), s.forgetDue)
}

// forgetDue forgets the processes that are due, up to the first whose close may be lost.
func (s *Session) forgetDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.retention
	r.stopTimer()
	now := r.clock(time.Now())
	for !s.ended && r.paused.IsZero() && len(r.waiting) > 0 && !r.waiting[0].due.After(now) {
		if !s.holder.attachment.peer.HeardSince(r.waiting[0].delivered) { // a peer is attached, because the clock runs
			r.waiting[0].due = now.Add(confirmInterval)
			break
		}
		s.forgetLocked(r.waiting[0].process)
		r.waiting = r.waiting[1:]
	}
	s.scheduleForgetLocked()
}

// forgetLocked removes a closed process. Processes that its command left running
// continue until the session ends.
func (s *Session) forgetLocked(p *Process) {
	delete(s.processes.byID, p.ID)
	p.Log.End()
	p.release(p.child)
	s.processes.keep(p.child)
}
