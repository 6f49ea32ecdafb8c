package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
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

// Nothing is drawn over a program that has the whole screen: the title tells it.
func TestStatusOnAlternateScreen(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	s := &statusLine{to: &screen, terminal: true}
	s.alternate.is = true
	s.tell(client.Status{State: client.Recovering})
	s.tick()
	s.tick()
	s.tell(client.Status{State: client.Connected})
	title := escTitleBegin + "tether: connection lost, reconnecting (0s)" + escTitleEnd
	want := escTitleSave + title + title + escTitleGoBack
	if screen.String() != want {
		t.Errorf("drawn %q", screen.String())
	}
}

// The status has the reason of the last attempt, without characters that could do
// something to a terminal.
func TestStatusHasTheReason(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		var out bytes.Buffer
		s := &statusLine{to: &out, terminal: terminal}
		s.tell(client.Status{State: client.Recovering, Err: errors.New("reset")})
		s.tell(client.Status{State: client.Recovering, Attempt: 1, Err: errors.New("nobody\x1b[2J\nlistens")})
		s.tick()
		want := "tether: connection lost, reconnecting: nobody?[2J?listens\n"
		if terminal {
			want = escMakeRoom + escSave + escBelow + "tether: connection lost, reconnecting (0s): nobody?[2J?listens" + escRestore
		}
		if out.String() != want {
			t.Errorf("terminal %t: %q", terminal, out.String())
		}
		if terminal {
			s.tell(client.Status{State: client.Recovering, Attempt: 2, Err: errors.New("no route")})
			s.tick()
			if !strings.HasSuffix(out.String(), ": no route"+escRestore) {
				t.Errorf("after the next attempt %q", out.String())
			}
		}
		s.close()
	}
}

// Notes have lines of their own, and wait while a program has the whole screen.
func TestNotes(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		name string
		line *statusLine
		want string
	}{
		{"plain", &statusLine{}, "tether: one\ntether: two\n"},
		{"quiet", &statusLine{quiet: true}, ""},
		{"terminal", &statusLine{terminal: true}, "tether: one\ntether: two\n"},
		{"raw", &statusLine{terminal: true, raw: true}, "\r\ntether: one\r\n\r\ntether: two\r\n"},
	} {
		var out bytes.Buffer
		try.line.to = &out
		try.line.note("one")
		try.line.note("two")
		try.line.close()
		try.line.note("late")
		if out.String() != try.want {
			t.Errorf("%s: %q", try.name, out.String())
		}
	}

	var screen bytes.Buffer
	s := &statusLine{to: &screen, terminal: true, raw: true}
	w := statusWriter{s, &screen}
	w.Write([]byte("\x1b[?1049h"))
	s.note("one")
	w.Write([]byte("edited"))
	w.Write([]byte("\x1b[?1049l"))
	s.note("two")
	w.Write([]byte("\x1b[?1049h"))
	s.note("three")
	s.close()
	want := "\x1b[?1049hedited\x1b[?1049l\r\ntether: one\r\n\r\ntether: two\r\n\x1b[?1049h\r\ntether: three\r\n"
	if screen.String() != want {
		t.Errorf("drawn %q", screen.String())
	}
}

// A command that tries everything is told about for a while.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := newRefusals(newStatusLine(&out, false))
	for port := range uint16(1000) {
		for range 2 {
			r.tell(refusal{host: "evil\x1b[2J.example", port: port, reason: "not_allowed"})
		}
	}
	lines := strings.Split(out.String(), "\n")
	if n := len(lines) - 1; n != maxRefusals+1 {
		t.Errorf("%d lines", n)
	}
	if strings.Contains(out.String(), "\x1b") || lines[1] != "tether: refused evil?[2J.example:1: no --allow-host matches; allow it with --allow-host evil?[2J.example:1" {
		t.Errorf("%q", lines[1])
	}
	out.Reset()
	r = newRefusals(newStatusLine(&out, false))
	r.withoutPorts()
	for _, d := range []wire.NetworkDecision{
		{Host: "a.test", Port: 443, Decision: "allow"},
		{Host: "a.test", Port: 443, Decision: "deny", Reason: "not_allowed"},
		{Host: "b.test", Port: 443, Decision: "deny", Reason: "denied"},
		{Host: "c.test", Port: 443, Decision: "deny", Reason: "not_allowed_local"},
		{Host: "d.test", Port: 443, Decision: "deny", Reason: "not_allowed_local", TetherAddress: new("[fd00::1]:443")},
		{Host: "::1", Port: 443, Decision: "deny", Reason: "not_allowed_local"},
		{Host: "e.test", Port: 443, Decision: "ask", Reason: "hm"},
	} {
		r.decided(d)
	}
	want := `tether: refused a.test:443: no --allow-host matches; allow it with --allow-host a.test
tether: refused b.test:443: --deny-host matches
tether: refused c.test:443: it leads to a private or local address, or to none
tether: refused d.test:443: it leads to fd00::1, a private or local address
tether: refused [::1]:443: it is a private or local address, and no --allow-host is for it alone; allow it with --allow-host ::1
tether: refused e.test:443: the server says hm
`
	if out.String() != want {
		t.Errorf("told\n%swant\n%s", out.String(), want)
	}
}

// An outage that is over soon is not worth a word.
func TestShortOutageIsNotTold(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
