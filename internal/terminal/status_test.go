package terminal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
)

func TestAlternateScreen(t *testing.T) {
	t.Parallel()
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

// While a program uses the whole screen, the status is in the title.
func TestStatusOnAlternateScreen(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	s := &StatusLine{to: &screen, terminal: true}
	s.alternate.is = true
	s.Tell(client.Status{State: client.Recovering})
	s.tick()
	s.tick()
	s.Tell(client.Status{State: client.Connected})
	title := escTitleBegin + "tether: connection lost, reconnecting (0s)" + escTitleEnd
	want := escTitleSave + title + title + escTitleGoBack
	if screen.String() != want {
		t.Errorf("drawn %q", screen.String())
	}
}

// The status has the reason of the last attempt, without control characters.
func TestStatusHasTheReason(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		var out bytes.Buffer
		s := &StatusLine{to: &out, terminal: terminal}
		s.Tell(client.Status{State: client.Recovering, Err: errors.New("reset")})
		s.Tell(client.Status{State: client.Recovering, Attempt: 1, Err: errors.New("no server\x1b[2J\nlistens")})
		s.tick()
		want := "tether: connection lost, reconnecting: no server?[2J?listens\n"
		if terminal {
			want = escMakeRoom + escSave + escBelow + "tether: connection lost, reconnecting (0s): no server?[2J?listens" + escRestore
		}
		if out.String() != want {
			t.Errorf("terminal %t: %q", terminal, out.String())
		}
		if terminal {
			s.Tell(client.Status{State: client.Recovering, Attempt: 2, Err: errors.New("no route")})
			s.tick()
			if !strings.HasSuffix(out.String(), ": no route"+escRestore) {
				t.Errorf("after the next attempt %q", out.String())
			}
		}
		s.Close()
	}
}

// Notes have lines of their own, and wait while a program uses the whole screen.
func TestNotes(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		name string
		line *StatusLine
		want string
	}{
		{"plain", &StatusLine{}, "tether: one\ntether: two\n"},
		{"quiet", &StatusLine{quiet: true}, ""},
		{"terminal", &StatusLine{terminal: true}, "tether: one\ntether: two\n"},
		{"raw", &StatusLine{terminal: true, raw: true}, "\r\ntether: one\r\n\r\ntether: two\r\n"},
	} {
		var out bytes.Buffer
		try.line.to = &out
		try.line.Note("one")
		try.line.Note("two")
		try.line.Close()
		try.line.Note("late")
		if out.String() != try.want {
			t.Errorf("%s: %q", try.name, out.String())
		}
	}

	var screen bytes.Buffer
	s := &StatusLine{to: &screen, terminal: true, raw: true}
	w := statusWriter{s, &screen}
	w.Write([]byte("\x1b[?1049h"))
	s.Note("one")
	w.Write([]byte("edited"))
	w.Write([]byte("\x1b[?1049l"))
	s.Note("two")
	w.Write([]byte("\x1b[?1049h"))
	s.Note("three")
	s.Close()
	want := "\x1b[?1049hedited\x1b[?1049l\r\ntether: one\r\n\r\ntether: two\r\n\x1b[?1049h\r\ntether: three\r\n"
	if screen.String() != want {
		t.Errorf("drawn %q", screen.String())
	}
}

// A short outage is not shown.
func TestShortOutageIsNotShown(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := NewStatusLine(&out, false)
	s.Tell(client.Status{State: client.Recovering})
	s.Tell(client.Status{State: client.Connected})
	s.tick() // a timer that fires after the end
	s.Close()
	if out.Len() > 0 {
		t.Errorf("said %q", out.String())
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1234 * time.Millisecond: "1.2s", 45 * time.Second: "45s", 200 * time.Second: "3m20s",
		5*time.Hour + 10*time.Minute: "5h10m", 76 * time.Hour: "3d4h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
	for n, want := range map[uint64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 1 << 20: "1.0MiB", 10 << 20: "10MiB", 1000 << 10: "1.0MiB", 999 << 10: "999KiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
