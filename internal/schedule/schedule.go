package schedule

import (
	"context"
	"sync"
)

// A Job is one request, ready to run.
type Job struct {
	// Run does it and calls done once, when the answer is given, from any
	// goroutine. Unless the job is Slow, Run itself must not wait.
	Run func(done func())

	// Try, if not nil, does a slow job on the spot, unless that would mean to wait;
	// then it reports false, and Run is called. It must not wait for anything, files
	// included. A job that had to wait for another is not tried.
	Try func() bool

	Slow      bool    // Run waits, and does not return before done: it gets a goroutine
	Process   *string // jobs of one process begin in order
	Exclusive bool    // later jobs of the process begin when it is done
	Control   bool    // goes to the control lane

	// Touches are the files that the job depends on. Without a limit it begins when
	// no earlier job is under way that is in conflict with it.
	Touches []Touch

	visit *visit // if it touches something
}

// A Scheduler decides when the requests of one connection run. They are
// submitted in order of arrival by one goroutine.
//
// Without a limit, requests that conflict with no earlier one run at once: the
// results are those of one-by-one execution, but nobody waits for somebody
// else's wait. A limit of 1 means strictly one after the other; a larger one
// means two lanes with that many places each. The order per process is kept in
// every mode, except that the control lane does not wait for jobs that have no
// place in the other: what could give them one may be a terminate.
//
// When the connection is over, what waits for a place never begins: nobody was
// told that it would. What waits for an exclusive job, or for one that touches the
// same files, does, without a limit.
type Scheduler struct {
	ctx   context.Context
	limit int
	room  chan struct{}  // with a limit of 1: what waits
	slow  sync.WaitGroup // goroutines of slow jobs

	mu    sync.Mutex
	over  bool             // Wait was called
	lines map[string]*line // processes with an exclusive job under way
	gate  gate
	lanes [2]lane
}

// A line holds the jobs of a process that wait for an exclusive one.
type line struct {
	waiting   []Job
	busy      bool // an exclusive job is under way
	advancing bool // a goroutine takes jobs out, one after the other
}

// A lane has a limited number of places.
type lane struct {
	waiting []Job
	used    int
	filling bool // a goroutine takes jobs out, one after the other
}

// maxWaiting is how many jobs may wait for their turn where one runs after the
// other; then Submit waits. Requests alone are never so many.
const maxWaiting = 2 * 4096

// NewScheduler returns a scheduler for one connection, whose context is ctx. A
// limit of 0 means none.
func NewScheduler(ctx context.Context, limit int) *Scheduler {
	s := &Scheduler{ctx: ctx, limit: limit, lines: map[string]*line{}}
	if limit == 1 {
		s.room = make(chan struct{}, maxWaiting) // costs nothing per place
	}
	return s
}

// Submit runs a job when its time has come.
func (s *Scheduler) Submit(j Job) {
	switch {
	case s.room != nil:
		select {
		case s.room <- struct{}{}:
			s.enqueue(&s.lanes[0], j)
		case <-s.ctx.Done():
		}
	default:
		if len(j.Touches) > 0 && s.limit == 0 {
			j.visit = s.enter(j.Touches)
		}
		if j.Process == nil || !s.mustQueue(j) {
			s.place(j)
		}
	}
}

// Wait returns when all slow jobs that were begun are done. It is called when
// ctx is over and nothing is submitted any more.
func (s *Scheduler) Wait() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.slow.Wait()
}

// mustQueue puts a job behind the exclusive job of its process, if there is
// one. An exclusive job that need not wait makes later ones wait.
func (s *Scheduler) mustQueue(j Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lines[*j.Process]; l != nil {
		l.waiting = append(l.waiting, j)
		return true
	}
	if j.Exclusive {
		s.lines[*j.Process] = &line{busy: true}
	}
	return false
}

// advance is called when an exclusive job is done. It places the jobs that
// waited for it, up to the next exclusive one. Later jobs of the process cannot
// overtake them, as they go to the line until that is empty.
func (s *Scheduler) advance(process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[process]
	l.busy = false
	if l.advancing {
		return
	}
	l.advancing = true
	for len(l.waiting) > 0 && !l.busy {
		j := pop(&l.waiting)
		l.busy = j.Exclusive
		s.mu.Unlock()
		s.place(j)
		s.mu.Lock()
	}
	l.advancing = false
	if !l.busy {
		delete(s.lines, process)
	}
}

// place begins a job as soon as its lane has a place, or without a limit, as soon as
// no earlier one is in its way.
func (s *Scheduler) place(j Job) {
	if s.limit == 0 {
		if j.Slow {
			s.slow.Add(1)
		}
		if j.visit == nil || s.mayBegin(j) {
			s.begin(j, nil)
		}
		return
	}
	n := &s.lanes[0]
	if j.Control {
		n = &s.lanes[1]
	}
	if j.Process == nil && s.take(n) {
		// It has no order to keep, and later ones may count on its having
		// begun: the rest of the lane need not come first.
		if j.Slow {
			s.slow.Add(1)
		}
		s.begin(j, n)
		return
	}
	s.enqueue(n, j)
}

// enter notes what a job touches, in order of arrival.
func (s *Scheduler) enter(touches []Touch) *visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate.enter(touches)
}

// mayBegin reports whether a job whose turn has come waits for nobody who touches the
// same files. If it does, it begins when they are done.
func (s *Scheduler) mayBegin(j Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.visit.earlier == 0 {
		return true
	}
	j.Try = nil // it would hold up the others that begin at the same time
	j.visit.begin = func() { s.begin(j, nil) }
	return false
}

// leave lets those begin who waited for what a job touched.
func (s *Scheduler) leave(v *visit) {
	s.mu.Lock()
	free := s.gate.leave(v)
	s.mu.Unlock()
	for _, begin := range free {
		begin()
	}
}

// take takes a place, if there is one.
func (s *Scheduler) take(n *lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.used == s.limit {
		return false
	}
	n.used++
	return true
}

// enqueue puts a job into a lane, to begin in its turn.
func (s *Scheduler) enqueue(n *lane, j Job) {
	s.mu.Lock()
	n.waiting = append(n.waiting, j)
	s.fillLocked(n)
	s.mu.Unlock()
}

// vacate gives the place of a finished job to the next.
func (s *Scheduler) vacate(n *lane) {
	s.mu.Lock()
	n.used--
	s.fillLocked(n)
	s.mu.Unlock()
}

// fillLocked begins the jobs of a lane for which there are places, without the
// lock. Only one goroutine does so at a time, so that they begin in order;
// whoever comes meanwhile leaves its job or place to that one.
func (s *Scheduler) fillLocked(n *lane) {
	if n.filling {
		return
	}
	n.filling = true
	for len(n.waiting) > 0 && n.used < s.limit && !s.over && s.ctx.Err() == nil {
		j := pop(&n.waiting)
		n.used++
		if j.Slow {
			s.slow.Add(1)
		}
		s.mu.Unlock()
		if s.room != nil {
			<-s.room
		}
		s.begin(j, n)
		s.mu.Lock()
	}
	n.filling = false
}

// begin runs a job that has a place in a lane, or needs none. A slow one has
// been added to s.slow.
func (s *Scheduler) begin(j Job, n *lane) {
	done := func() {}
	if n != nil || j.Exclusive || j.visit != nil {
		done = func() { s.finish(j, n) }
	}
	if !j.Slow {
		j.Run(done)
		return
	}
	if j.Try != nil && j.Try() {
		s.slow.Done()
		done()
		return
	}
	go func() { // waited for by Wait
		defer s.slow.Done()
		j.Run(done)
	}()
}

// finish lets those begin who waited for the job.
func (s *Scheduler) finish(j Job, n *lane) {
	if n != nil {
		s.vacate(n)
	}
	if j.visit != nil {
		s.leave(j.visit)
	}
	if j.Exclusive && s.room == nil {
		s.advance(*j.Process)
	}
}

// pop takes the first job out of a queue.
func pop(queue *[]Job) Job {
	j := (*queue)[0]
	(*queue)[0] = Job{}
	if *queue = (*queue)[1:]; len(*queue) == 0 {
		*queue = nil
	}
	return j
}
