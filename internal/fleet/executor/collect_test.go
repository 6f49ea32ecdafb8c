package executor

import (
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/websocket"
)

// Only while a client gets much, its writer waits for more. It does not while the client gets little, and not any more after a pause.
func TestCollectorIsBusy(t *testing.T) {
	const step = busyTick / 8
	for _, row := range []struct {
		what  string
		bytes int // in each step
		want  bool
	}{
		{"echoes of lines", 100, false},
		{"a little less than much", busyBytes/9 - 1, false},
		{"much", busyBytes / 8, true},
	} {
		now := time.Now()
		var c collector
		got := false
		for range 100 {
			now = now.Add(step)
			got = c.isBusy(row.bytes, now)
		}
		if got != row.want {
			t.Errorf("%s: busy %v", row.what, got)
		}
		if c.isBusy(100, now.Add(2*busyTick)) {
			t.Errorf("%s: busy after a pause", row.what)
		}
	}
}

// While the client gets much, the goroutine that has something to send leaves it to the writer, which waits for more. An answer that comes while the
// writer writes does not wait, nor does the end of the link.
func TestCollectorWaits(t *testing.T) {
	var c *collector
	sent := 0
	during := func() {} // the next frame is sent
	mux := link.NewMux(link.Config{MaxLinks: 1, Publish: func(string, []byte) error {
		sent++
		now := during
		during = func() {}
		now()
		return nil
	}})
	l, err := mux.Open(fleet.LinkSubject{Host: "box", Process: "p", Gateway: "g", Link: "l", Up: true}, link.DefaultWindow, nil, func(string, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	c = newCollector(l)
	write := func(write func([]byte) (int, error), b []byte, want int) {
		t.Helper()
		if n, err := write(b); n != want || err != nil {
			t.Errorf("%d of %d bytes, %v", n, want, err)
		}
	}
	short, header := make([]byte, websocket.MaxHeader+1), make([]byte, websocket.MaxHeader)
	c.tick, c.wait = time.Now().Add(time.Hour), 2*hang.Limit // the tick does not end, and neither does a wait
	write(c.TryWrite, short, len(short))
	c.busy = true
	write(c.TryWrite, short, 0)
	write(c.Write, header, len(header))
	write(c.Write, make([]byte, longWrite), longWrite)
	during = c.Hurry
	write(c.Write, short, len(short))
	if sent != 4 {
		t.Errorf("%d frames", sent)
	}
	during = func() { l.Close() }
	write(c.Write, short, len(short))
}
