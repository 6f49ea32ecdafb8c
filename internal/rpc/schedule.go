package rpc

import (
	"context"
	"sync"
)

// A Job is one request, ready to run.
type Job struct {
	// Run does it and calls done when the answer is given, from any goroutine.
	// Unless the job is Slow, Run itself must not wait.
	Run func(done func())

	Slow      bool    // Run waits: it gets a goroutine
	Process   *string // jobs of one process begin in order
	Exclusive bool    // later jobs of the process begin when it is done
	Control   bool    // goes to the control lane
}

// A Scheduler decides when the requests of one connection run. They are
// submitted in order of arrival by one goroutine.
//
// Without a limit, requests that conflict with no earlier one run at once: the
// results are those of one-by-one execution, but nobody waits for somebody
// else's wait. A limit of 1 means strictly one after the other; a larger one
// means two lanes with that many places each. The order per process is kept in
// every mode.
type Scheduler struct {
	ctx    context.Context
	limit  int
	serial chan Job // with a limit of 1
	jobs   sync.WaitGroup

	mu    sync.Mutex
	lines map[string]*line // processes with an exclusive job under way
	lanes [2]lane
}

// A line holds the jobs of a process that wait for an exclusive one.
type line struct{ waiting []Job }

// A lane has a limited number of places.
type lane struct {
	used    int
	waiting []Job
}

// NewScheduler returns a scheduler for one connection, whose context is ctx. A
// limit of 0 means none.
func NewScheduler(ctx context.Context, limit int) *Scheduler {
	s := &Scheduler{ctx: ctx, limit: limit, lines: map[string]*line{}}
	if limit == 1 {
		s.serial = make(chan Job, MaxRequests)
		s.jobs.Go(s.runSerially)
	}
	return s
}

// Submit runs a job when its time has come.
func (s *Scheduler) Submit(j Job) {
	if s.serial != nil {
		select {
		case s.serial <- j:
		case <-s.ctx.Done():
		}
		return
	}
	if j.Process != nil && s.mustQueue(j) {
		return
	}
	s.place(j)
}

// Wait returns when all jobs that were begun are done. It is called when ctx is
// over.
func (s *Scheduler) Wait() { s.jobs.Wait() }

func (s *Scheduler) runSerially() {
	for {
		select {
		case j := <-s.serial:
			done := make(chan struct{})
			j.Run(func() { close(done) })
			<-done
		case <-s.ctx.Done():
			return
		}
	}
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
		s.lines[*j.Process] = &line{}
	}
	return false
}

// advance begins the jobs that waited for an exclusive one.
func (s *Scheduler) advance(process string) {
	for {
		s.mu.Lock()
		l := s.lines[process]
		if len(l.waiting) == 0 {
			delete(s.lines, process)
			s.mu.Unlock()
			return
		}
		j := l.waiting[0]
		l.waiting = l.waiting[1:]
		s.mu.Unlock()
		s.place(j)
		if j.Exclusive {
			return
		}
	}
}

// place begins a job as soon as its lane has a place.
func (s *Scheduler) place(j Job) {
	if s.limit == 0 {
		s.begin(j, func() {})
		return
	}
	n := &s.lanes[0]
	if j.Control {
		n = &s.lanes[1]
	}
	s.mu.Lock()
	if n.used == s.limit {
		n.waiting = append(n.waiting, j)
		s.mu.Unlock()
		return
	}
	n.used++
	s.mu.Unlock()
	s.begin(j, func() { s.vacate(n) })
}

// vacate hands the place of a finished job to the next.
func (s *Scheduler) vacate(n *lane) {
	s.mu.Lock()
	if len(n.waiting) == 0 {
		n.used--
		s.mu.Unlock()
		return
	}
	j := n.waiting[0]
	n.waiting = n.waiting[1:]
	s.mu.Unlock()
	s.begin(j, func() { s.vacate(n) })
}

func (s *Scheduler) begin(j Job, vacate func()) {
	done := vacate
	if j.Exclusive {
		done = func() {
			vacate()
			s.advance(*j.Process)
		}
	}
	if j.Slow {
		s.jobs.Go(func() { j.Run(done) })
		return
	}
	j.Run(done)
}
