package observe

import (
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
)

func shell(script string) proc.Spec {
	return proc.Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: []string{"PATH=/bin:/usr/bin"}}
}

// awaitOutput waits until a process has printed something.
func awaitOutput(t *testing.T, log *outlog.Log) {
	t.Helper()
	await(t, "output", func() bool { return log.OutputAfter(0) > 0 })
}

// awaitGone waits until the supervisor knows that a process that ends by itself has
// left no others: Kill checks at once, and has nothing to kill.
func awaitGone(t *testing.T, p *proc.Process) {
	t.Helper()
	<-p.Done()
	p.Kill()
}

// The usage is that of the whole tree, including processes that have ended, and
// without earlier members of the same cgroup.
func TestUsage(t *testing.T) {
	const memory = 20_000_000
	inBothModes(t, func(t *testing.T, s *proc.Supervisor) {
		m := NewMeter(s)
		p, log := start(t, s, shell(`
			(i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done)
			setsid sh -c 'x=$(head -c 20000000 /dev/zero | tr "\0" x); echo pid=$$; sleep 1000' &
			wait`))
		awaitOutput(t, log)
		used, ok := m.Usage()[p]
		if !ok || used.CPU < 20*time.Millisecond || used.CPU > time.Minute || used.Memory < memory || used.Memory > 20*memory {
			t.Errorf("%+v, %v", used, ok)
		}
		p.Terminate()
		awaitGone(t, p)
		if used, ok := m.Usage()[p]; ok {
			t.Errorf("after its end: %+v", used)
		}
		busy := 0
		for range 3 { // processes that were not killed
			before, _ := start(t, s, shell(`i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done`))
			awaitGone(t, before)
			next, log := start(t, s, shell(`echo pid=$$; sleep 1000; :`))
			awaitOutput(t, log)
			used, ok := m.Usage()[next]
			if !ok || used.Memory == 0 {
				t.Errorf("a process that only sleeps: %+v, %v", used, ok)
			}
			if used.CPU > 20*time.Millisecond {
				t.Logf("a process that only sleeps: %+v", used)
				busy++
			}
			next.Kill()
		}
		if busy == 3 { // if a machine is stopped for a moment, that may count as use
			t.Error("the usage of earlier processes counts")
		}
	})
}

// A command that has exited while its children run is still measured.
func TestUsageAfterExit(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *proc.Supervisor) {
		p, log := start(t, s, shell(`(echo pid=1; while :; do sleep 1000; done) &`))
		awaitOutput(t, log)
		await(t, "exit", func() bool { _, exited := p.Exited(); return exited })
		if used, ok := NewMeter(s).Usage()[p]; !ok || used.Memory == 0 {
			t.Errorf("%+v, %v", used, ok)
		}
	})
}

// A caller that waited for a measurement that began after its call takes its result.
func TestUsageMeasurementsAreShared(t *testing.T) {
	s := proc.New(proc.Config{})
	t.Cleanup(s.Close)
	p, _ := start(t, s, shell(`sleep 1000`))
	m := NewMeter(s)
	m.began = time.Now().Add(time.Hour)
	if found := m.Usage(); found != nil {
		t.Errorf("measured again: %v", found)
	}
	m.began = time.Now()
	if _, ok := m.Usage()[p]; !ok {
		t.Error("did not measure again")
	}
}
