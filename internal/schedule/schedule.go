package schedule

import "sync"

// A Kind says what the id of a Key names.
type Kind uint8

// The kinds of keys. A job whose key has the kind None keeps no order.
const (
	None Kind = iota
	Process
	FileHandle
	Upload
	Watch
)

// A Key is the thing that a job is about. Jobs with the same key begin in order of arrival.
type Key struct {
	Kind Kind
	ID   string
}

// A Job is one request that is ready to run.
type Job struct {
	// Run executes the request. The job is done when Run returns. Unless the job is Slow, Run must not wait.
	Run func()

	// Try, if not nil, executes a slow job on the goroutine that submits it, if that is possible without waiting for
	// anything, files included. Otherwise it reports false, and Run is called. A job that had to wait for another one is
	// not tried.
	Try func() bool

	Slow      bool // Run may wait: it gets a goroutine of its own
	Key       Key
	Exclusive bool // later jobs with the same key begin when this one is done

	// Paths are the files that the job depends on. The job begins when no earlier conflicting job is under way.
	Paths []PathUse

	// Passing jobs wait for earlier jobs that change their paths. Later jobs wait for them only until they may begin.
	Passing bool

	lock *pathLock // nil if the job need not wait for its paths
}

// A Scheduler decides when the requests of one connection run. One goroutine submits them, in order of arrival. The zero
// value is ready to use.
type Scheduler struct {
	slow sync.WaitGroup // slow jobs that were submitted

	mu     sync.Mutex
	queues map[Key]*keyQueue // of the keys with an exclusive job that is not done
	paths  pathLocks
}

// A keyQueue holds the jobs of one key that wait for an exclusive job.
type keyQueue struct {
	waiting   []Job
	busy      bool // an exclusive job has begun and is not done
	advancing bool // a goroutine begins the waiting jobs, one after the other
}

// Submit runs a job as soon as it may run.
func (s *Scheduler) Submit(j Job) {
	if j.Slow {
		s.slow.Add(1)
	}
	if len(j.Paths) > 0 {
		s.mu.Lock()
		j.lock = s.paths.acquire(j.Paths, j.Passing)
		s.mu.Unlock()
	}
	if j.Key.Kind == None || !s.mustQueue(j) {
		s.place(j)
	}
}

// Wait returns when all slow jobs are done. It is called after the last Submit.
func (s *Scheduler) Wait() { s.slow.Wait() }

// mustQueue puts a job behind the exclusive job with its key, if there is one. If there is none and the job is exclusive,
// later jobs have to queue.
func (s *Scheduler) mustQueue(j Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[j.Key]; q != nil {
		q.waiting = append(q.waiting, j)
		return true
	}
	if j.Exclusive {
		if s.queues == nil {
			s.queues = map[Key]*keyQueue{}
		}
		s.queues[j.Key] = &keyQueue{busy: true}
	}
	return false
}

// advance is called when an exclusive job is done. It places the jobs that waited for it, up to the next exclusive one.
// Later jobs with the key cannot overtake them, because they have to queue until the queue is empty.
func (s *Scheduler) advance(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	q.busy = false
	if q.advancing {
		return
	}
	q.advancing = true
	for len(q.waiting) > 0 && !q.busy {
		j := pop(&q.waiting)
		q.busy = j.Exclusive
		s.mu.Unlock()
		s.place(j)
		s.mu.Lock()
	}
	q.advancing = false
	if !q.busy {
		delete(s.queues, key)
	}
}

// place begins a job that is first in its queue, as soon as it need not wait for its paths.
func (s *Scheduler) place(j Job) {
	if j.lock == nil || s.mayBegin(j) {
		s.begin(j)
	}
}

// mayBegin reports whether a job need not wait for its paths. If it must, it begins when the jobs before it are done.
func (s *Scheduler) mayBegin(j Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.lock.earlier == 0 {
		return true
	}
	j.Try = nil // it would delay the other jobs that begin at the same time
	j.lock.begin = func() { s.begin(j) }
	return false
}

// begin runs a job that need not wait any more.
func (s *Scheduler) begin(j Job) {
	switch {
	case !j.Slow:
		j.Run()
		s.finish(j)
	case j.Try != nil && j.Try():
		s.finish(j)
		s.slow.Done()
	default:
		go s.runSlow(j) // Wait waits for it
	}
}

func (s *Scheduler) runSlow(j Job) {
	defer s.slow.Done()
	j.Run()
	s.finish(j)
}

// finish begins the jobs that waited for this one.
func (s *Scheduler) finish(j Job) {
	if j.lock != nil && !j.Passing {
		s.mu.Lock()
		free := s.paths.release(j.lock)
		s.mu.Unlock()
		for _, begin := range free {
			begin()
		}
	}
	if j.Exclusive {
		s.advance(j.Key)
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
