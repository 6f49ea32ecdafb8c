package session

import (
	"slices"
	"time"

	"github.com/tetherexec/tether/internal/proc"
)

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
	at      time.Time // by the queue's clock
}

func (q *retention) clock(now time.Time) time.Time {
	if !q.paused.IsZero() {
		now = q.paused
	}
	return now.Add(-q.pausedFor)
}

func (q *retention) pause(now time.Time) {
	if q.paused.IsZero() {
		q.paused = now
	}
	q.stop()
}

func (q *retention) resume(now time.Time) {
	if !q.paused.IsZero() {
		q.pausedFor += now.Sub(q.paused)
		q.paused = time.Time{}
	}
	least := q.clock(now).Add(keepResumed)
	for i, e := range q.waiting {
		if e.at.Before(least) {
			q.waiting[i].at = least
		}
	}
}

func (q *retention) stop() {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// closeSentLocked is called once per process, when its close was sent.
func (s *Session) closeSentLocked(p *Process) {
	q := &s.retention
	now := time.Now()
	q.waiting = append(q.waiting, forgetEntry{p, now, q.clock(now).Add(keepClosed)})
	s.scheduleForgetLocked()
}

// scheduleForgetLocked sees to it that the first of the queue is forgotten in
// time.
func (s *Session) scheduleForgetLocked() {
	q := &s.retention
	if s.ended || q.timer != nil || len(q.waiting) == 0 || !q.paused.IsZero() {
		return
	}
	q.timer = time.AfterFunc(q.waiting[0].at.Sub(q.clock(time.Now())), s.forgetDue)
}

func (s *Session) forgetDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.retention
	q.stop()
	now := q.clock(time.Now())
	for !s.ended && q.paused.IsZero() && len(q.waiting) > 0 && !q.waiting[0].at.After(now) {
		if !s.attachment.peer.HeardSince(q.waiting[0].sent) { // it is attached: the clock runs
			q.waiting[0].at = now.Add(confirmInterval)
			break
		}
		s.forgetLocked(q.waiting[0].process)
		q.waiting = q.waiting[1:]
	}
	s.scheduleForgetLocked()
}

// forgetLocked removes a closed process. What it left running goes on until the
// session ends.
func (s *Session) forgetLocked(p *Process) {
	delete(s.processes, p.ID)
	p.Log.End()
	s.keepSurvivorsLocked(p.child)
}

// keepSurvivorsLocked adds to the survivors, and forgets those that have ended.
func (s *Session) keepSurvivorsLocked(more ...*proc.Process) {
	s.survivors = slices.DeleteFunc(append(s.survivors, more...), func(c *proc.Process) bool { return !c.Leftovers() })
}

// keepSurvivor sees to it that what a shell has left running ends with the session.
func (s *Session) keepSurvivor(c *proc.Process) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.keepSurvivorsLocked(c)
	}
	s.mu.Unlock()
	if ended {
		c.Kill()
	}
}
