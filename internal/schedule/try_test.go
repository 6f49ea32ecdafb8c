package schedule

import "testing"

// A job that can be done without waiting is done before Submit returns, and jobs that use the same files may begin at
// once. A job that cannot gets its own goroutine.
func TestTry(t *testing.T) {
	var s Scheduler
	tried, ran := 0, make(chan string, 2)
	run := func(name string) func() { return func() { ran <- name } }
	s.Submit(Job{Slow: true, Paths: []PathUse{{"/f", false}}, Run: run("tried"), Try: func() bool { tried++; return true }})
	if tried != 1 || len(ran) > 0 {
		t.Errorf("tried %d times, run %d times", tried, len(ran))
	}
	s.Submit(Job{Slow: true, Paths: []PathUse{{"/f", true}}, Run: run("refused"), Try: func() bool { return false }})
	if name := <-ran; name != "refused" {
		t.Errorf("%s was run", name)
	}
	s.Wait()
}

// A job that waits for another one is not tried: the goroutine that ends the wait has other jobs to begin.
func TestTryAfterWait(t *testing.T) {
	var s Scheduler
	written := make(chan struct{})
	s.Submit(Job{Slow: true, Paths: []PathUse{{"/f", true}}, Run: func() { <-written }})
	ran := make(chan struct{})
	s.Submit(Job{
		Slow: true, Paths: []PathUse{{"/f", false}},
		Try: func() bool {
			t.Error("a job that waited was tried")
			return true
		},
		Run: func() { close(ran) },
	})
	select {
	case <-ran:
		t.Fatal("the job began before the write was done")
	default:
	}
	close(written)
	<-ran
	s.Wait()
}
