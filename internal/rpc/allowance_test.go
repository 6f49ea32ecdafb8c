package rpc

import (
	"testing"
	"testing/synctest"
)

// The reader waits while too much is unanswered, and goes on when a request leaves or the connection ends.
func TestAdmissionWakesTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b allowance
		b.init(nil, false)
		a := &b.requests
		for range MaxRequests {
			a.enter(1, false, false)
		}
		entered := make(chan bool, 1)
		enter := func() {
			_, ok := a.enter(1, false, false)
			entered <- ok
		}
		go enter()
		synctest.Wait()
		if len(entered) > 0 {
			t.Fatal("entered although MaxRequests are unanswered")
		}
		a.leave(1, true)
		if !<-entered {
			t.Error("enter reports that the connection ends")
		}
		go enter()
		synctest.Wait()
		a.leave(0, true) // the bytes stay, but the count goes down
		if !<-entered {
			t.Error("enter reports that the connection ends")
		}
		go enter()
		synctest.Wait()
		a.close()
		if <-entered {
			t.Error("entered a connection that has ended")
		}
	})
}
