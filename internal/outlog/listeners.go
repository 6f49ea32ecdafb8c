package outlog

import "slices"

// A listener has a function that is called for new entries.
type listener struct{ wake func(urgent bool) }

// OnAppend makes wake be called after every new entry and at the end, by the
// goroutine that caused it. That goroutine holds no lock of the log; wake must be
// quick. An urgent entry is small; wake may deliver it itself. The end is not
// urgent, because its caller may hold locks of its own. The returned function stops
// the calls; a call that has begun may still finish after it.
func (l *Log) OnAppend(wake func(urgent bool)) (stop func()) {
	this := &listener{wake}
	l.lock()
	defer l.mu.Unlock()
	l.listeners = append(slices.Clip(l.listeners), this)
	return func() {
		l.lock()
		defer l.mu.Unlock()
		l.listeners = slices.DeleteFunc(slices.Clone(l.listeners), func(one *listener) bool { return one == this })
	}
}

// urgentSize is the largest piece of output that a person may be waiting for at
// this moment, such as the echo of a key. For larger pieces, throughput matters
// more.
const urgentSize = 4 << 10

// announce wakes listeners, the newest first: a reader that waits for one event has
// registered after those that follow the log all the time.
func announce(listeners []*listener, urgent bool) {
	for _, one := range slices.Backward(listeners) {
		one.wake(urgent)
	}
}
