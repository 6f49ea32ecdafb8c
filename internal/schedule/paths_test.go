package schedule

import (
	"fmt"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestWithin(t *testing.T) {
	for _, row := range []struct {
		p, dir string
		want   bool
	}{
		{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/a", "/", true}, {"/", "/", true},
	} {
		if got := within(row.p, row.dir); got != row.want {
			t.Errorf("%s within %s: %v", row.p, row.dir, got)
		}
	}
}

// A lock is free exactly when no earlier lock that is still held conflicts with it.
func TestPathsGiveTheResultsOfOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type job struct {
			uses           []PathUse
			lock           *pathLock
			began, release bool
		}
		var locks pathLocks
		var jobs []*job
		path := rapid.SampledFrom([]string{"/", "/a", "/a/b", "/a/b/c", "/a/x", "/ab", "/a/../a/b/", "/z"})
		check := func() {
			for i, j := range jobs {
				free := true
				for _, e := range jobs[:i] {
					if a, b := new(pathLocks).acquire(e.uses, false), new(pathLocks).acquire(j.uses, false); !e.release && a.conflicts(b) {
						free = false
					}
				}
				if j.began != free && !j.release {
					t.Fatalf("job %d %v: began %v, want %v", i, j.uses, j.began, free)
				}
			}
		}
		finish := func(j *job) {
			j.release = true
			for _, begin := range locks.release(j.lock) {
				begin()
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			var running []*job
			for _, j := range jobs {
				if j.began && !j.release {
					running = append(running, j)
				}
			}
			if len(running) > 0 && rapid.Bool().Draw(t, "finish") {
				finish(rapid.SampledFrom(running).Draw(t, "which"))
			} else {
				j := &job{}
				for range rapid.IntRange(1, 2).Draw(t, "uses") {
					j.uses = append(j.uses, PathUse{path.Draw(t, "path"), rapid.Bool().Draw(t, "change")})
				}
				jobs = append(jobs, j)
				j.lock = locks.acquire(j.uses, false)
				j.lock.begin = func() { j.began = true }
				j.began = j.lock.earlier == 0
			}
			check()
		}
		for left := true; left; {
			left = false
			for _, j := range jobs {
				if !j.release {
					left = true
					if j.began {
						finish(j)
					}
				}
			}
			check()
		}
		if len(locks.held) > 0 {
			t.Fatalf("%d locks are left", len(locks.held))
		}
	})
}

// A start waits for changes above and below its directory, and later requests of the process wait for the start.
func TestPathsAndKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(recorder)
		submit := func(name string, j Job) {
			st.submit(name, j)
			synctest.Wait()
		}
		p := Key{Process, "p"}
		submit("write", Job{Slow: true, Paths: []PathUse{{"/ws/a", true}}})
		submit("start", Job{Slow: true, Key: p, Exclusive: true, Paths: []PathUse{{"/ws", false}}})
		submit("read", Job{Key: p})
		submit("elsewhere", Job{Slow: true, Paths: []PathUse{{"/tmp/x", true}}})
		submit("look", Job{Slow: true, Paths: []PathUse{{"/ws/b", false}}})
		submit("change", Job{Slow: true, Paths: []PathUse{{"/ws/b", true}}})
		if got := st.order(); got != "write, elsewhere, look" {
			t.Errorf("began %s", got)
		}
		for _, name := range []string{"write", "look"} {
			st.finish(name)
			st.order()
		}
		if got := st.order(); got != "write, elsewhere, look, start" {
			t.Errorf("began %s", got)
		}
		st.finish("start")
		if got := st.order(); got != "write, elsewhere, look, start, change, read" && got != "write, elsewhere, look, start, read, change" {
			t.Errorf("began %s", got)
		}
		st.end()
	})
}

// A job that waits in the queue of its key keeps its position among the jobs that use the same files.
func TestPathsKeepTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(recorder)
		handle := Key{FileHandle, "h"}
		st.submit("close", Job{Slow: true, Key: handle, Exclusive: true})
		st.submit("open", Job{Slow: true, Key: handle, Exclusive: true, Paths: []PathUse{{"/d/f", false}}})
		st.submit("remove", Job{Slow: true, Paths: []PathUse{{"/d", true}}})
		for i, want := range []string{"close", "close, open", "close, open, remove"} {
			if got := st.order(); got != want {
				t.Errorf("step %d: began %s, want %s", i, got, want)
			}
			st.finish([]string{"close", "open", "remove"}[i])
		}
		st.end()
	})
}

// A passing job waits for earlier changes to its paths. Later changes wait neither for the job nor for its turn in the
// queue of its key.
func TestPassing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, queued := range []bool{false, true} {
			t.Log("queued behind a start:", queued)
			st := new(recorder)
			p := Key{Process, "p"}
			want := "change"
			if queued {
				st.submit("first start", Job{Slow: true, Key: p, Exclusive: true})
				st.order()
				want = "first start, change"
			}
			st.submit("change", Job{Slow: true, Paths: []PathUse{{"/ws/a", true}}})
			st.order()
			st.submit("start", Job{Slow: true, Key: p, Exclusive: true, Passing: true, Paths: []PathUse{{"/ws", false}}})
			st.submit("later change", Job{Slow: true, Paths: []PathUse{{"/ws/b", true}}})
			if got := st.order(); got != want {
				t.Errorf("began %s, want %s", got, want)
			}
			st.finish("change")
			got := st.order()
			switch {
			case queued && got != want+", later change":
				t.Errorf("began %s: the later change has to begin", got)
			case !queued && got != want+", start, later change" && got != want+", later change, start":
				t.Errorf("began %s: the start and the later change have to begin", got)
			}
			st.end()
			if n := len(st.paths.held); n > 0 {
				t.Errorf("%d path locks are left", n)
			}
		}
	})
}

// A passing job that waits for nothing takes no lock.
func TestPassingTakesNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(recorder)
		st.submit("start", Job{Slow: true, Passing: true, Paths: []PathUse{{"/ws", false}}})
		st.order()
		st.submit("change", Job{Slow: true, Paths: []PathUse{{"/ws/a", true}}})
		if got := st.order(); got != "start, change" {
			t.Errorf("began %s", got)
		}
		st.end()
	})
}

func BenchmarkSubmit(b *testing.B) {
	for _, kind := range []Kind{None, Process} {
		b.Run(fmt.Sprint(kind), func(b *testing.B) {
			var s Scheduler
			ran := 0
			b.ReportAllocs()
			for b.Loop() {
				s.Submit(Job{Key: Key{kind, "process"}, Run: func() { ran++ }})
			}
		})
	}
}
