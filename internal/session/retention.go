package session

import "time"

const (
	// keepClosed is how long a process can still be read after its close was
	// sent.
	keepClosed = 30 * time.Second

	// confirmInterval is how often a peer that has been silent since then is
	// looked at again: what was sent to it may be lost.
	confirmInterval = 5 * time.Second

	// keepResumed is the least time that a client has to read a closed process
	// after a resume: longer than it may be silent before it is pushed.
	keepResumed = 2 * resumeQuiet
)

// A retention holds the processes whose close was sent, in that order, until
// they are to be forgotten. Its clock stands still while the session is
// detached, and nothing is forgotten while the client has not been heard since:
// one that is away loses nothing, whether we know that it is away or not.
type retention struct {
	waiting   []forgetEntry
	pausedFor time.Duration // how long the clock has stood still so far
	paused    time.Time     // since when it stands still; zero while it runs
	timer     *time.Timer
}

type forgetEntry struct {
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
	r.waiting = append(r.waiting, forgetEntry{p, now, r.clock(now).Add(keepClosed)})
	s.scheduleForgetLocked()
}

// scheduleForgetLocked sees to it that the first of the queue is forgotten in
// time.
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
		if !s.holder.attachment.peer.HeardSince(r.waiting[0].sent) { // it is attached: the clock runs
			r.waiting[0].at = now.Add(confirmInterval)
			break
		}
		s.forgetLocked(r.waiting[0].process)
		r.waiting = r.waiting[1:]
	}
	s.scheduleForgetLocked()
}

// forgetLocked removes a closed process. What it left running goes on until the
// session ends.
func (s *Session) forgetLocked(p *Process) {
	delete(s.processes.byID, p.ID)
	p.Log.End()
	s.processes.keep(p.child)
}
