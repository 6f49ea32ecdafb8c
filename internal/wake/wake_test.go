package wake

import "testing"

// Signals that were not received yet are one, and sending never waits.
func TestSignal(t *testing.T) {
	s := New()
	s.Send()
	s.Send()
	<-s
	select {
	case <-s:
		t.Error("two signals were received")
	default:
	}
}
