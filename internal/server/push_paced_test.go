package server

import (
	"testing"
	"testing/synctest"
	"time"
)

// After a resume a client is pushed at most pacingEvents and pacingBytes within
// pacingTime.
func TestResumePacing(t *testing.T) {
	const parkedEvents, parkedBytes, largest = 256, 1 << 20, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int{0, 1, 5000, largest} {
			var r resumePacing
			time.Sleep(time.Hour) // the time counts from the first push
			for r.left() <= 0 {
				r.pushed(size)
				if r.events > parkedEvents || r.bytes > parkedBytes {
					t.Fatalf("%d events with %d bytes", r.events, r.bytes)
				}
			}
			if r.left() != pacingTime {
				t.Errorf("paused for %v", r.left())
			}
			time.Sleep(pacingTime - time.Nanosecond)
			if r.left() <= 0 {
				t.Error("not paused any more")
			}
			time.Sleep(time.Nanosecond)
			if r.pushed(size); r.left() > 0 {
				t.Errorf("still paused for %v", r.left())
			}
		}
	})
}
