package confine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A server that has just printed its address answers its first client before it tries out sandboxes.
func TestBeginLeavesTimeForTheFirstClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &Confiner{ctx: ctx, cancel: cancel}
		c.Begin()
		time.Sleep(beginDelay - 1)
		synctest.Wait()
		c.mu.Lock()
		if c.latest != nil {
			t.Error("the probe has begun before the delay")
		}
		c.mu.Unlock()
		c.cancel()
		c.tasks.Wait() // the wait ends with the confiner
		if c.latest != nil {
			t.Error("a confiner that was closed has begun a probe")
		}
	})
}

// A probe that failed is repeated after the time that the advice to the user states.
func TestFailedProbeIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := &probeRun{began: time.Now(), done: make(chan struct{}), support: Support{Problem: errors.New("no sandbox")}}
		succeeded := &probeRun{began: time.Now(), done: failed.done}
		if failed.outdated() {
			t.Error("a probe that has not ended is repeated")
		}
		close(failed.done)
		time.Sleep(30 * time.Second) // on the test's own clock
		if failed.outdated() {
			t.Error("a failed probe is repeated after 30 s")
		}
		time.Sleep(time.Nanosecond)
		if !failed.outdated() || succeeded.outdated() {
			t.Errorf("more than 30 s later a failed probe is repeated: %t, one that succeeded: %t", failed.outdated(), succeeded.outdated())
		}
	})
}
