// Package wake has the signal by which goroutines wake another one up without ever waiting for it.
package wake

// A Signal tells one goroutine that it has something to look at. Several signals that it has not received yet are one. It
// receives from the channel, and checks its own condition again after that.
type Signal chan struct{}

// New returns a Signal that is not sent.
func New() Signal { return make(Signal, 1) }

// Send wakes the goroutine. It never waits.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
