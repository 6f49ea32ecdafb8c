package confine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

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
