package confine

import (
	"context"
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
