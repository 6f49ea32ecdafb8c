package schedule

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// A recorder runs jobs by name and notes when they begin. Slow jobs end when finish is
// called.
type recorder struct {
	Scheduler

	mu    sync.Mutex
	began []string
	ends  map[string]chan struct{} // of slow jobs that have begun and not ended
}

// submit submits a job under a name. A slow job ends when finish is called.
func (st *recorder) submit(name string, j Job) {
	j.Run = func() {
		end := make(chan struct{})
		st.mu.Lock()
		st.began = append(st.began, name)
		if j.Slow {
			if st.ends == nil {
				st.ends = map[string]chan struct{}{}
			}
			st.ends[name] = end
		}
		st.mu.Unlock()
		if j.Slow {
			<-end
		}
	}
	st.Submit(j)
}

// submitNamed submits the job that its name describes: the kind, the process, and anything else: "start p", "write p 1",
// "poll p", "kill p", "status". Only a start is slow: a poll, for example, returns before its answer is given.
func (st *recorder) submitNamed(name string) {
	words := strings.Fields(name)
	j := Job{Slow: words[0] == "start", Exclusive: words[0] == "start"}
	if len(words) > 1 {
		j.Key = Key{Process, words[1]}
	}
	st.submit(name, j)
}

func (st *recorder) finish(name string) bool {
	st.mu.Lock()
	end, ok := st.ends[name]
	delete(st.ends, name)
	st.mu.Unlock()
	if ok {
		close(end)
	}
	return ok
}

// order returns the names of the jobs that have begun so far.
func (st *recorder) order() string {
	synctest.Wait()
	st.mu.Lock()
	defer st.mu.Unlock()
	return strings.Join(st.began, ", ")
}

// end finishes all jobs, including those that begin then.
func (st *recorder) end() {
	for {
		synctest.Wait()
		st.mu.Lock()
		var names []string
		for name := range st.ends {
			names = append(names, name)
		}
		st.mu.Unlock()
		if len(names) == 0 {
			break
		}
		for _, name := range names {
			st.finish(name)
		}
	}
	st.Wait()
}

func TestSchedulerTable(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps string // "name" submits, "-name" finishes, "?names" lists the jobs that must have begun
	}{
		{"no job waits for a poll", "poll p; status; write p 1; ?poll p, status, write p 1"},
		{"a start holds back its process only",
			"start p; write p 1; kill p; poll p; status; start q; ?start p, status, start q;" +
				"-start p; ?start p, status, start q, write p 1, kill p, poll p"},
		{"a start behind a start",
			"start p; write p 1; start p 2; write p 2; -start p; ?start p, write p 1, start p 2;" +
				"-start p 2; ?start p, write p 1, start p 2, write p 2"},
		{"terminate passes a waiting write", "write p 1; kill p; ?write p 1, kill p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := new(recorder)
				for step := range strings.SplitSeq(c.steps, ";") {
					step = strings.TrimSpace(step)
					if want, ok := strings.CutPrefix(step, "?"); ok {
						if got := st.order(); got != want {
							t.Errorf("began %s, want %s", got, want)
						}
					} else if name, ok := strings.CutPrefix(step, "-"); ok {
						synctest.Wait()
						if !st.finish(name) {
							t.Fatalf("%s has not begun", name)
						}
					} else {
						st.submitNamed(step)
						synctest.Wait()
					}
				}
				st.end()
			})
		})
	}
}

// Keys of different kinds with the same id are independent of each other, and the empty id is an id like any other.
func TestKeysHaveKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(recorder)
		st.submit("start", Job{Key: Key{Process, ""}, Slow: true, Exclusive: true})
		st.order()
		st.submit("open", Job{Key: Key{FileHandle, ""}, Slow: true, Exclusive: true})
		st.order()
		st.submit("status", Job{})
		st.submit("write", Job{Key: Key{Process, ""}})
		if got := st.order(); got != "start, open, status" {
			t.Errorf("began %s", got)
		}
		st.end()
	})
}

// Wait waits for slow jobs, including those that are queued, and every job is run.
func TestWaitRunsQueuedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(recorder)
		st.submitNamed("start p")
		st.submitNamed("kill p")
		st.submitNamed("start p 2")
		waited := make(chan struct{})
		go func() { st.Wait(); close(waited) }()
		for _, start := range []string{"start p", "start p 2"} {
			synctest.Wait()
			select {
			case <-waited:
				t.Errorf("Wait does not wait for %s", start)
			default:
			}
			st.finish(start)
		}
		<-waited
		if got := st.order(); got != "start p, kill p, start p 2" {
			t.Errorf("began %s", got)
		}
	})
}

// Many jobs that wait for the same one run one after the other, not inside each other.
func TestWaitingJobsDoNotNest(t *testing.T) {
	const count = 10_000
	var s Scheduler
	key := Key{Process, "p"}
	gate := make(chan struct{})
	s.Submit(Job{Key: key, Slow: true, Exclusive: true, Run: func() { <-gate }})
	depth, deepest, ran := 0, 0, 0
	for i := range count {
		s.Submit(Job{Key: key, Slow: i%2 == 0, Exclusive: i%2 == 0, Try: func() bool { return false }, Run: func() {
			depth++
			ran++
			deepest = max(deepest, depth)
			depth--
		}})
	}
	close(gate)
	s.Wait()
	if ran != count || deepest != 1 {
		t.Errorf("%d jobs ran, %d deep", ran, deepest)
	}
}

// However long each job takes, the effects on a process are those of one-by-one execution. Writes to a process that does
// not exist fail, so that an overtaken start shows.
func TestSchedulerIsAsIfSequential(t *testing.T) {
	kinds := []string{"start", "write", "poll", "kill"}
	rapid.Check(t, func(rt *rapid.T) {
		requests := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) request {
			return request{rapid.SampledFrom(kinds).Draw(rt, "kind"), rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "process")}
		}), 1, 40).Draw(rt, "requests")
		want := newWorld()
		for i, r := range requests {
			want.do(i, r)
		}
		got := newWorld()
		var s Scheduler
		var jobs sync.WaitGroup
		for i, r := range requests {
			jobs.Add(1)
			s.Submit(Job{
				Key: Key{Process, r.process}, Slow: r.kind == "start", Exclusive: r.kind == "start",
				Run: func() {
					defer jobs.Done()
					got.do(i, r)
				},
			})
		}
		jobs.Wait()
		s.Wait()
		for i := range requests {
			if got.results[i] != want.results[i] {
				rt.Fatalf("request %d %v: got %q, one by one %q", i, requests[i], got.results[i], want.results[i])
			}
		}
	})
}

type request struct{ kind, process string }

// A world has processes that remember what was written to them.
type world struct {
	mu      sync.Mutex
	input   map[string]string
	results map[int]string
}

func newWorld() *world { return &world{input: map[string]string{}, results: map[int]string{}} }

func (w *world) do(i int, r request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, running := w.input[r.process]
	w.results[i] = fmt.Sprint(running, before)
	switch r.kind {
	case "start":
		if !running {
			w.input[r.process] = "started"
		}
	case "write":
		if running {
			w.input[r.process] = fmt.Sprint(before, ",", i)
		}
	case "kill":
		delete(w.input, r.process)
	}
}
