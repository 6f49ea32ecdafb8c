package outlog

import "slices"

// A listener is told about new entries.
type listener struct{ wake func(urgent bool) }

// OnAppend arranges for wake to be called after every new entry and at the end,
// from the goroutine that caused it, which holds no lock of the log: wake must be
// quick. An urgent entry is a small one; wake may deliver it on the spot. The end is
// not urgent: its caller may hold locks of its own. OnAppend returns a function that
// ends the arrangement; a call that is under way then may still arrive.
func (l *Log) OnAppend(wake func(urgent bool)) (stop func()) {
	this := &listener{wake}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(slices.Clip(l.listeners), this)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.listeners = slices.DeleteFunc(slices.Clone(l.listeners), func(one *listener) bool { return one == this })
	}
}

// urgentSize is the largest piece of output that a person may be waiting for at
// this moment, such as the echo of a key. More is a matter of throughput.
const urgentSize = 4 << 10

// announceAndUnlock makes all listeners look again, the newest first: a reader that
// waits for one event has come after those that get all.
func (l *Log) announceAndUnlock(urgent bool) {
	listeners := l.listeners
	l.mu.Unlock()
	for _, one := range slices.Backward(listeners) {
		one.wake(urgent)
	}
}
