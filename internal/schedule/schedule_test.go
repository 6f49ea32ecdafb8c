package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// A stage runs jobs by name and notes when they begin and end.
type stage struct {
	s      *Scheduler
	cancel context.CancelFunc

	mu    sync.Mutex
	began []string
	done  map[string]func() // of jobs that have begun and not ended
}

func newStage(limit int) *stage {
	ctx, cancel := context.WithCancel(context.Background())
	return &stage{s: NewScheduler(ctx, limit), cancel: cancel, done: map[string]func(){}}
}

// submit submits a job that ends when finish is called. Its name is the kind,
// the process, and anything else: "start p", "write p 1", "poll p", "kill p",
// "status".
func (st *stage) submit(name string) {
	j := Job{}
	words := strings.Fields(name)
	if len(words) > 1 {
		j.Process = &words[1]
	}
	switch words[0] {
	case "start":
		j.Slow, j.Exclusive = true, true
	case "kill", "status":
		j.Control = true
	}
	j.Run = func(done func()) {
		ended := make(chan struct{})
		end := done
		if j.Slow {
			end = func() { close(ended) }
		}
		st.mu.Lock()
		st.began = append(st.began, name)
		st.done[name] = end
		st.mu.Unlock()
		if j.Slow {
			<-ended
			done()
		}
	}
	st.s.Submit(j)
}

func (st *stage) finish(name string) bool {
	st.mu.Lock()
	done, ok := st.done[name]
	delete(st.done, name)
	st.mu.Unlock()
	if ok {
		done()
	}
	return ok
}

// order returns what has begun so far.
func (st *stage) order() string {
	synctest.Wait()
	st.mu.Lock()
	defer st.mu.Unlock()
	return strings.Join(st.began, ", ")
}

// end finishes all that runs, also what begins then.
func (st *stage) end() {
	for {
		synctest.Wait()
		st.mu.Lock()
		var names []string
		for name := range st.done {
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
	st.cancel()
	st.s.Wait()
}

func TestSchedulerTable(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int
		steps string // "name" submits, "-name" finishes, "?" and what must have begun
	}{
		{"nobody waits for a poll", 0, "poll p; status; write p 1; ?poll p, status, write p 1"},
		{"a start holds back its process only", 0,
			"start p; write p 1; kill p; poll p; status; start q; ?start p, status, start q;" +
				"-start p; ?start p, status, start q, write p 1, kill p, poll p"},
		{"a start behind a start", 0,
			"start p; write p 1; start p 2; write p 2; -start p; ?start p, write p 1, start p 2;" +
				"-start p 2; ?start p, write p 1, start p 2, write p 2"},
		{"terminate passes a waiting write", 0, "write p 1; kill p; ?write p 1, kill p"},

		{"one after the other", 1, "poll p; status; kill q; ?poll p; -poll p; ?poll p, status; -status; ?poll p, status, kill q"},
		{"serial order is the order of arrival", 1,
			"start p; write p 1; status; write q 1; -start p; -write p 1; ?start p, write p 1, status; -status; ?start p, write p 1, status, write q 1"},

		{"two places", 2, "poll p; poll q; poll r; ?poll p, poll q; -poll q; ?poll p, poll q, poll r"},
		{"the control lane is another", 2, "poll p; poll q; status; kill r; kill s; ?poll p, poll q, status, kill r; -status; ?poll p, poll q, status, kill r, kill s"},
		{"terminate passes writes without a place", 2, "write p 1; write p 2; write p 3; kill p; ?write p 1, write p 2, kill p"},
		{"but no start without a place", 2,
			"poll q; poll r; start p; kill p; write p 1; ?poll q, poll r; -poll q; ?poll q, poll r, start p;" +
				"-start p; ?poll q, poll r, start p, write p 1, kill p | poll q, poll r, start p, kill p, write p 1"},
		{"those behind a start hold no place", 2, "start p; write p 1; write p 2; write p 3; poll q; ?start p, poll q"},
		{"writes keep their order through line and lane", 2,
			"poll q; start p; write p 1; write p 2; -start p; write p 3; ?poll q, start p, write p 1; -write p 1; -write p 2; ?poll q, start p, write p 1, write p 2, write p 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStage(c.limit)
				for step := range strings.SplitSeq(c.steps, ";") {
					step = strings.TrimSpace(step)
					if want, ok := strings.CutPrefix(step, "?"); ok {
						if got := st.order(); !slices.Contains(strings.Split(want, " | "), got) {
							t.Errorf("began %s, want %s", got, want)
						}
					} else if name, ok := strings.CutPrefix(step, "-"); ok {
						synctest.Wait()
						if !st.finish(name) {
							t.Fatalf("%s has not begun", name)
						}
					} else {
						st.submit(step)
						synctest.Wait()
					}
				}
				st.end()
			})
		})
	}
}

// What waits for a place at the end of the connection never begins, and Wait
// does not wait for a job that nobody will finish.
func TestSchedulerAtTheEnd(t *testing.T) {
	for _, limit := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			st := newStage(limit)
			for i := range limit {
				st.submit(fmt.Sprint("write p ", i))
			}
			st.submit("write p never")
			st.submit("start q")
			st.submit("write q never")
			before := st.order()
			st.cancel()
			st.s.Wait()
			for i := range limit {
				if !st.finish(fmt.Sprint("write p ", i)) { // later: nothing follows
					t.Errorf("limit %d: write %d has not begun", limit, i)
				}
			}
			if got := st.order(); got != before {
				t.Errorf("limit %d: after the end began %s", limit, strings.TrimPrefix(got, before))
			}
		})
	}
	t.Run("behind a start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newStage(0)
			st.submit("start p")
			st.submit("kill p")
			st.cancel()
			waited := make(chan struct{})
			go func() { st.s.Wait(); close(waited) }()
			synctest.Wait()
			select {
			case <-waited:
				t.Error("Wait does not wait for a start")
			default:
			}
			st.finish("start p")
			<-waited
			if got := st.order(); got != "start p, kill p" {
				t.Errorf("began %s", got)
			}
		})
	})
}

// Notifications are not counted by the connection: where they wait for their
// turn, the reader waits instead of collecting them.
func TestSerialSchedulerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage(1)
		st.submit("poll p")
		submitted := make(chan int)
		go func() {
			n := 0
			for ; st.s.ctx.Err() == nil; n++ {
				st.s.Submit(Job{Run: func(done func()) { done() }})
			}
			submitted <- n
		}()
		synctest.Wait()
		st.s.mu.Lock()
		waiting := len(st.s.lanes[0].waiting)
		st.s.mu.Unlock()
		st.cancel()
		if n := <-submitted; waiting != maxWaiting || n != maxWaiting+1 {
			t.Errorf("%d jobs wait, %d were submitted", waiting, n)
		}
		st.s.Wait()
	})
}

// Many jobs that end at once run one after the other, not inside each other.
func TestWaitingJobsDoNotNest(t *testing.T) {
	for _, limit := range []int{1, 2} {
		s := NewScheduler(t.Context(), limit)
		var hold []func()
		for range limit {
			s.Submit(Job{Run: func(done func()) { hold = append(hold, done) }})
		}
		depth, deepest, count := 0, 0, 0
		for range maxWaiting {
			s.Submit(Job{Run: func(done func()) {
				depth++
				count++
				deepest = max(deepest, depth)
				done()
				depth--
			}})
		}
		hold[0]()
		if count != maxWaiting || deepest != 1 {
			t.Errorf("limit %d: %d jobs ran, %d deep", limit, count, deepest)
		}
	}
}

// The jobs of a process begin in order also while places become free at any
// time.
func TestLaneOrderUnderStress(t *testing.T) {
	const count = 20_000
	s := NewScheduler(t.Context(), 3)
	process := "p"
	var (
		mu    sync.Mutex
		began []int
		tasks sync.WaitGroup
	)
	for i := range count {
		tasks.Add(1)
		s.Submit(Job{Process: &process, Run: func(done func()) {
			mu.Lock()
			began = append(began, i)
			mu.Unlock()
			go func() {
				defer tasks.Done()
				done()
			}()
		}})
	}
	tasks.Wait()
	if len(began) != count || !slices.IsSorted(began) {
		t.Errorf("%d jobs began, in order: %v", len(began), slices.IsSorted(began))
	}
}

// Whatever the limit and however long each job takes, the effects on a process
// are those of one-by-one execution. Writes to a process that does not exist
// fail, so that an overtaken start shows.
func TestSchedulerIsAsIfSequential(t *testing.T) {
	kinds := []string{"start", "write", "poll", "kill"}
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(rt, "limit")
		requests := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) request {
			return request{rapid.SampledFrom(kinds).Draw(rt, "kind"), rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "process"), rapid.Bool().Draw(rt, "later")}
		}), 1, 40).Draw(rt, "requests")
		if limit > 1 { // there a kill may pass a write: that is not sequential
			requests = slices.DeleteFunc(requests, func(r request) bool { return r.kind == "kill" })
		}
		want := newWorld()
		for i, r := range requests {
			want.do(i, r)
		}
		got := newWorld()
		s := NewScheduler(context.Background(), limit)
		var jobs sync.WaitGroup
		for i, r := range requests {
			jobs.Add(1)
			s.Submit(Job{
				Process: &r.process, Slow: r.kind == "start", Exclusive: r.kind == "start", Control: r.kind == "kill",
				Run: func(done func()) {
					got.do(i, r)
					end := func() { done(); jobs.Done() }
					if r.later && r.kind != "start" {
						go end()
					} else {
						end()
					}
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

type request struct {
	kind, process string
	later         bool // the answer comes later
}

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
