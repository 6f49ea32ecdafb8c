package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
)

func TestAlternateScreen(t *testing.T) {
	const on, off = "\x1b[?1049h", "\x1b[?1049l"
	for _, try := range []struct {
		pieces []string
		want   bool
	}{
		{[]string{"text"}, false},
		{[]string{"a" + on + "b"}, true},
		{[]string{"a\x1b[?10", "49hb"}, true},
		{[]string{on, "text\x1b[m", off}, false},
		{[]string{on + off}, false},
		{[]string{off + on}, true},
		{[]string{on, "\x1b", "[", "?", "1", "0", "4", "9", "l"}, false},
		{[]string{"\x1b[?47h"}, true},
	} {
		var a alternateScreen
		for _, piece := range try.pieces {
			a.follow([]byte(piece))
		}
		if a.is != try.want {
			t.Errorf("%q: %t", try.pieces, a.is)
		}
	}
}

// Nothing is drawn over a program that has the whole screen: the title tells it.
func TestStatusOnAlternateScreen(t *testing.T) {
	var screen bytes.Buffer
	s := &statusLine{to: &screen, terminal: true}
	s.alternate.is = true
	s.tell(client.Status{State: client.Recovering})
	s.tick()
	s.tell(client.Status{State: client.Connected})
	want := escTitleBegin + "tether: the connection is lost, trying to come back (0s)" + escTitleEnd + escTitleGoBack
	if screen.String() != want {
		t.Errorf("drawn %q", screen.String())
	}
}

// An outage that is over soon is not worth a word.
func TestShortOutageIsNotTold(t *testing.T) {
	var out bytes.Buffer
	s := newStatusLine(&out, false)
	s.tell(client.Status{State: client.Recovering})
	s.tell(client.Status{State: client.Connected})
	s.tick() // too late
	s.close()
	if out.Len() > 0 {
		t.Errorf("said %q", out.String())
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1234 * time.Millisecond: "1.2s", 45 * time.Second: "45s", 200 * time.Second: "3m20s",
		5*time.Hour + 10*time.Minute: "5h10m", 76 * time.Hour: "3d4h",
	} {
		if got := shortTime(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
	for n, want := range map[uint64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 1 << 20: "1.0MiB", 10 << 20: "10MiB", 1000 << 10: "1.0MiB", 999 << 10: "999KiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
