package rpc

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// monotonic reports whether comparisons of a time with another one ignore the wall clock.
func monotonic(t time.Time) bool { return strings.Contains(t.String(), " m=") }

// Signs of life have the monotonic clock, so that a connection neither ends nor lives on because
// the wall clock was set.
func TestSignsOfLifeAreMonotonic(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	in, w := io.Pipe()
	defer w.Close()
	for name, stream := range map[string]Stream{"WebSocket": NewWebSocket(ours, nil), "lines": NewLines(in, w)} {
		if !monotonic(stream.LastRead()) {
			t.Errorf("%s: heard at %v, by the wall clock", name, stream.LastRead())
		}
		c := New(t.Context(), stream, Config{})
		if c.liveness.ackedAt.note(); !monotonic(c.liveness.lastSign()) {
			t.Errorf("%s: alive at %v, by the wall clock", name, c.liveness.lastSign())
		}
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	var m moment
	m.begin()
	before := m.time()
	for !m.time().After(before) {
		m.note()
	}
	if d := time.Until(m.time()); d > 0 {
		t.Errorf("the moment is %v ahead", d)
	}
}
