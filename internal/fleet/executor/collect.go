package executor

import (
	"time"

	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/wake"
	"github.com/tetherexec/tether/internal/websocket"
)

// A frame costs a hub about 40 µs, and a gateway as much, whatever its length: it is handed over four times, and each time a thread wakes up. While a
// client gets much, frames are therefore made long: after a short one, the writer waits a moment for more output. An answer does not wait.
const (
	// longWrite is the length of writes that are long enough. The writer of a connection takes about twice as much at once, if it is there.
	longWrite = 96 << 10

	// busyBytes is what a client gets in a busyTick, or more, if it gets much. One that gets less waits for nothing.
	busyBytes = 32 << 10
	busyTick  = 4 * time.Millisecond

	// collectTime is how long the writer waits.
	collectTime = time.Millisecond
)

// A collector is a link whose writer collects more for the next write while the client gets much. One goroutine at a time writes.
type collector struct {
	*link.Link
	wait  time.Duration // collectTime
	hurry wake.Signal   // an answer is to be written

	busy  bool      // the client has got busyBytes in the last tick
	tick  time.Time // when the present one has begun
	bytes int       // written since then
}

func newCollector(l *link.Link) *collector {
	return &collector{Link: l, wait: collectTime, hurry: wake.New()}
}

// Hurry lets the writer go on.
func (c *collector) Hurry() { c.hurry.Send() }

// Write implements net.Conn.
func (c *collector) Write(b []byte) (n int, err error) {
	select {
	case <-c.hurry: // the answer is in b
	default:
	}
	n, err = c.Link.Write(b)
	// The header of a message that is written by itself is followed by the message.
	if !c.isBusy(n, time.Now()) || n >= longWrite || n <= websocket.MaxHeader || err != nil {
		return n, err
	}
	select {
	case <-time.After(c.wait):
	case <-c.hurry:
	case <-c.Done():
	}
	return n, nil
}

// TryWrite writes as much as can be written without waiting: nothing, while more is to be collected.
func (c *collector) TryWrite(b []byte) (n int, err error) {
	if c.isBusy(0, time.Now()) {
		return 0, nil
	}
	n, err = c.Link.TryWrite(b)
	c.bytes += n
	return n, err
}

// isBusy counts n more bytes, and reports whether the client gets much.
func (c *collector) isBusy(n int, now time.Time) bool {
	if passed := now.Sub(c.tick); passed > busyTick {
		c.busy = c.bytes >= busyBytes && passed < 2*busyTick
		c.tick, c.bytes = now, 0
	}
	c.bytes += n
	return c.busy
}
