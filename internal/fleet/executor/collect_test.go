package executor

import (
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/link"
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

// While the client gets much, the goroutine that has something to send leaves it to the writer.
func TestCollectorLeavesItToTheWriter(t *testing.T) {
	var sent [][]byte
	mux := link.NewMux(link.Config{MaxLinks: 1, Publish: func(_ string, b []byte) error {
		sent = append(sent, b)
		return nil
	}})
	l, err := mux.Open(fleet.LinkSubject{Host: "box", Process: "p", Gateway: "g", Link: "l", Up: true}, link.DefaultWindow, nil, func(string, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{Link: l, tick: time.Now().Add(time.Hour)} // the tick does not end
	if n, err := c.TryWrite([]byte("first")); n != len("first") || err != nil {
		t.Error(n, err)
	}
	c.busy = true
	if n, err := c.TryWrite([]byte("second")); n != 0 || err != nil {
		t.Error(n, err)
	}
	if n, err := c.Write([]byte("second, and what is longer than a header")); n == 0 || err != nil {
		t.Error(n, err)
	}
	if len(sent) != 2 || c.bytes == 0 {
		t.Errorf("%d frames were sent; %d bytes are counted", len(sent), c.bytes)
	}
	l.Close()
	if _, err := c.Write([]byte("late")); err == nil {
		t.Error("a closed link is written to")
	}
}
