package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
)

// A slowPeer answers a ping after a time, and sends requests all the time.
type slowPeer struct {
	delay  time.Duration // negative: it has no pings
	pinged time.Time
}

func (p *slowPeer) CanPing() bool { return p.delay >= 0 }

func (p *slowPeer) Ping() uint64 {
	p.pinged = time.Now()
	return 1
}

func (p *slowPeer) Signs() rpc.Signs {
	signs := rpc.Signs{Received: uint64(time.Now().UnixNano()), Messages: uint64(time.Now().UnixNano()), Answers: 7}
	if !p.pinged.IsZero() && time.Since(p.pinged) >= p.delay {
		signs.Answers++
	}
	return signs
}

// After a resume a client is pushed at most pacingEvents and pacingBytes before a pause. The pause lasts for pacingTime, and longer if
// the client is slow to answer a ping.
func TestResumePacing(t *testing.T) {
	const parkedEvents, parkedBytes, largest = 256, 1 << 20, 64 << 10
	pauses := []struct{ answer, pause time.Duration }{
		{-1, pacingTime},
		{time.Millisecond, pacingTime},
		{pacingTime / 2, pacingTime},
		{pacingTime, 2 * pacingTime},
		{time.Second, 2 * time.Second},
		{time.Hour, pacingPatience},
	}
	for _, size := range []int{0, 1, 5000, largest} {
		for _, want := range pauses {
			synctest.Test(t, func(t *testing.T) {
				var r resumePacing
				peer := &slowPeer{delay: want.answer}
				time.Sleep(time.Hour) // the time counts from the first push
				for r.left(peer) <= 0 {
					r.pushed(size)
					if r.events > parkedEvents || r.bytes > parkedBytes {
						t.Fatalf("%d events with %d bytes", r.events, r.bytes)
					}
				}
				if peer.pinged.IsZero() {
					t.Error("the client was not pinged")
				}
				begun := time.Now()
				for left := r.left(peer); left > 0; left = r.left(peer) {
					if left < time.Nanosecond {
						t.Fatalf("%v left", left)
					}
					time.Sleep(left)
				}
				if pause := time.Since(begun); pause < want.pause || pause > want.pause+2*pacingLook {
					t.Errorf("events of %d bytes, an answer after %v: paused for %v, want %v", size, want.answer, pause, want.pause)
				}
				time.Sleep(time.Nanosecond)
				if left := r.left(peer); left >= 0 {
					t.Errorf("still paced: %v", left)
				}
			})
		}
	}
}
