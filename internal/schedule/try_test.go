package schedule

import (
	"context"
	"testing"
)

// A job that can be done on the spot is done before Submit returns, and what touches
// the same files may begin at once. One that cannot gets its goroutine.
func TestTry(t *testing.T) {
	for _, limit := range []int{0, 1, 2} {
		ctx, cancel := context.WithCancel(t.Context())
		s := NewScheduler(ctx, limit)
		tried, ran := 0, make(chan string, 2)
		run := func(name string) func(func()) {
			return func(done func()) {
				defer done()
				ran <- name
			}
		}
		touches := []Touch{{"/f", false}}
		s.Submit(Job{Slow: true, Touches: touches, Run: run("tried"), Try: func() bool { tried++; return true }})
		if tried != 1 || len(ran) > 0 {
			t.Errorf("limit %d: tried %d times, run %d times", limit, tried, len(ran))
		}
		s.Submit(Job{Slow: true, Touches: []Touch{{"/f", true}}, Run: run("refused"), Try: func() bool { return false }})
		if name := <-ran; name != "refused" {
			t.Errorf("limit %d: %s was run", limit, name)
		}
		cancel()
		s.Wait()
	}
}

// A job that waits for another is not tried: whoever ends the wait has other jobs to
// begin.
func TestTryAfterWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := NewScheduler(ctx, 0)
	var written func()
	s.Submit(Job{Touches: []Touch{{"/f", true}}, Run: func(done func()) { written = done }})
	ran := make(chan struct{})
	s.Submit(Job{
		Slow: true, Touches: []Touch{{"/f", false}},
		Try: func() bool {
			t.Error("tried")
			return true
		},
		Run: func(done func()) {
			defer done()
			close(ran)
		},
	})
	select {
	case <-ran:
		t.Fatal("has begun before the write was done")
	default:
	}
	written()
	<-ran
	s.Wait()
}
