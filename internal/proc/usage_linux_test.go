package proc

import (
	"testing"
	"time"
)

// What counts is the whole tree, the dead included, and nothing of who was in the
// same cgroup before.
func TestUsage(t *testing.T) {
	const memory = 20_000_000
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		p, sink := start(t, s, shell(`
			(i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done)
			setsid sh -c 'x=$(head -c 20000000 /dev/zero | tr "\0" x); echo pid=$$; sleep 1000' &
			wait`))
		awaitPids(t, sink, 1)
		used, ok := s.Usage()[p]
		if !ok || used.CPU < 20*time.Millisecond || used.CPU > time.Minute || used.Memory < memory || used.Memory > 20*memory {
			t.Errorf("%+v, %v", used, ok)
		}
		p.Terminate()
		<-p.Done()
		s.settle()
		if used, ok := s.Usage()[p]; ok {
			t.Errorf("after its end: %+v", used)
		}
		busy := 0
		for range 3 { // one that was not killed
			before, _ := start(t, s, shell(`i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done`))
			<-before.Done()
			s.settle()
			next, sink := start(t, s, shell(`echo pid=$$; sleep 1000; :`))
			awaitPids(t, sink, 1)
			used, ok := s.Usage()[next]
			if !ok || used.Memory == 0 {
				t.Errorf("a process that only sleeps: %+v, %v", used, ok)
			}
			if used.CPU > 20*time.Millisecond {
				t.Logf("a process that only sleeps: %+v", used)
				busy++
			}
			next.Kill()
		}
		if busy == 3 { // where a machine stands still for a moment, that counts as use
			t.Error("what others have used counts")
		}
	})
}

// A command that has ended while its children go on is still looked at.
func TestUsageAfterExit(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		p, sink := start(t, s, shell(`(echo pid=1; while :; do sleep 1000; done) &`))
		awaitPids(t, sink, 1)
		sink.await("exit", func() bool { _, exited := p.Exited(); return exited })
		if used, ok := s.Usage()[p]; !ok || used.Memory == 0 {
			t.Errorf("%+v, %v", used, ok)
		}
	})
}

// Who waited for a look that began after he had asked takes what that found.
func TestUsageLooksAreShared(t *testing.T) {
	s := newSupervisor(t, Config{})
	p, _ := start(t, s, shell(`sleep 1000`))
	s.usage.began = time.Now().Add(time.Hour)
	if found := s.Usage(); found != nil {
		t.Errorf("looked again: %v", found)
	}
	s.usage.began = time.Now()
	if _, ok := s.Usage()[p]; !ok {
		t.Error("did not look again")
	}
}
