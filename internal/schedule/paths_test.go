package schedule

import (
	"context"
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

// A job begins exactly when no earlier unfinished one is in conflict with it.
func TestPathsLikeOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(context.Background(), 0)
		type job struct {
			touches  []Touch
			began    bool
			finished bool
			done     func()
		}
		var jobs []*job
		path := rapid.SampledFrom([]string{"/", "/a", "/a/b", "/a/b/c", "/a/x", "/ab", "/a/../a/b/", "/z"})
		check := func() {
			for i, j := range jobs {
				free := true
				for _, e := range jobs[:i] {
					if a, b := new(gate).enter(e.touches), new(gate).enter(j.touches); !e.finished && a.conflicts(b) {
						free = false
					}
				}
				if j.began != free && !j.finished {
					t.Fatalf("job %d %v: began %v, want %v", i, j.touches, j.began, free)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			var running []*job
			for _, j := range jobs {
				if j.began && !j.finished {
					running = append(running, j)
				}
			}
			if len(running) > 0 && rapid.Bool().Draw(t, "finish") {
				j := rapid.SampledFrom(running).Draw(t, "which")
				j.finished = true
				j.done()
			} else {
				j := &job{}
				for range rapid.IntRange(1, 2).Draw(t, "touches") {
					j.touches = append(j.touches, Touch{path.Draw(t, "path"), rapid.Bool().Draw(t, "change")})
				}
				jobs = append(jobs, j)
				s.Submit(Job{Touches: j.touches, Run: func(done func()) { j.began, j.done = true, done }})
			}
			check()
		}
		for left := true; left; {
			left = false
			for _, j := range jobs {
				if !j.finished {
					left = true
					if j.began {
						j.finished = true
						j.done()
					}
				}
			}
			check()
		}
		s.Wait()
	})
}

// A start waits for changes above and below its directory, and what follows it waits
// in its line.
func TestPathsAndLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(t.Context(), 0)
		var log []string
		done := map[string]func(){}
		submit := func(name string, j Job) {
			j.Run = func(d func()) { log, done[name] = append(log, name), d }
			s.Submit(j)
		}
		p := "p"
		submit("write", Job{Touches: []Touch{{"/ws/a", true}}})
		submit("start", Job{Process: &p, Exclusive: true, Touches: []Touch{{"/ws", false}}})
		submit("read", Job{Process: &p})
		submit("elsewhere", Job{Touches: []Touch{{"/tmp/x", true}}})
		submit("look", Job{Touches: []Touch{{"/ws/b", false}}})
		submit("change", Job{Touches: []Touch{{"/ws/b", true}}})
		synctest.Wait()
		if got := fmt.Sprint(log); got != "[write elsewhere look]" {
			t.Errorf("began %s", got)
		}
		done["write"]()
		done["look"]()
		done["start"]()
		synctest.Wait()
		if got := fmt.Sprint(log); got != "[write elsewhere look start change read]" {
			t.Errorf("began %s", got)
		}
	})
}

// A job that waits for its turn in a line holds its place among those that touch the
// same files.
func TestPathsKeepTheOrderOfArrival(t *testing.T) {
	s := NewScheduler(t.Context(), 0)
	var log []string
	done := map[string]func(){}
	submit := func(name string, j Job) {
		j.Run = func(d func()) { log, done[name] = append(log, name), d }
		s.Submit(j)
	}
	handle := "h"
	submit("close", Job{Process: &handle, Exclusive: true})
	submit("open", Job{Process: &handle, Exclusive: true, Touches: []Touch{{"/d/f", false}}})
	submit("remove", Job{Touches: []Touch{{"/d", true}}})
	if got := fmt.Sprint(log); got != "[close]" {
		t.Errorf("began %s", got)
	}
	done["close"]()
	done["open"]()
	if got := fmt.Sprint(log); got != "[close open remove]" {
		t.Errorf("began %s", got)
	}
}
