package terminal

import (
	"bytes"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tetherexec/tether/client"
)

// newClockedProgress returns a progress whose time the test sets, without the goroutine that
// draws.
func newClockedProgress(out *bytes.Buffer) (p *Progress, pass func(time.Duration)) {
	now := time.Unix(1_000_000, 0)
	p = &Progress{to: out, copy: copyState{now: func() time.Time { return now }, started: now}}
	return p, func(d time.Duration) {
		for step := 100 * time.Millisecond; d > 0; d -= step {
			now = now.Add(step)
			p.copy.measure()
		}
	}
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p, pass := newClockedProgress(&out)
	want := func(width int, text string) {
		t.Helper()
		if got := p.line(width); got != text {
			t.Errorf("%d columns:\n%q, not\n%q", width, got, text)
		}
	}
	want(0, "listing the files to copy")
	p.Plan(1, 1<<30)
	p.Begin("big.iso")
	want(79, "[>                       ]   0%  0B/1.0GiB  -/s  ETA -:--  big.iso")
	p.Skip(256 << 20) // does not count for the rate
	for range 40 {
		pass(100 * time.Millisecond)
		p.Add(1 << 20)
	}
	pass(100 * time.Millisecond)
	want(79, "[======>                 ]  28%  296MiB/1.0GiB  10MiB/s  ETA 1:13  big.iso")
	want(0, " 28%  296MiB/1.0GiB  10MiB/s  ETA 1:13")
	want(60, "[=====>             ]  28%  296MiB/1.0GiB  10MiB/s  ETA 1:13")
	want(20, " 28%  296MiB/1.0GiB…")
	p.Tell(client.Status{State: client.Recovering})
	want(0, " 28%  296MiB/1.0GiB  10MiB/s  ETA 1:13")
	pass(3 * time.Second)
	want(0, " 28%  296MiB/1.0GiB  connection lost, reconnecting (3s)")
	p.Tell(client.Status{State: client.Recovering, Err: errors.New("no server listens")})
	want(0, " 28%  296MiB/1.0GiB  connection lost, reconnecting (3s): no server listens")
	p.Tell(client.Status{State: client.Connected})
	pass(10 * time.Second)
	want(0, " 28%  296MiB/1.0GiB  -/s  ETA -:--")
	p.Add(728 << 20)
	p.Finish()
	if got := p.Summary(); got != "1 file, 768MiB in 17s (45MiB/s); 256MiB were copied by an earlier run" {
		t.Errorf("summary %q", got)
	}
	p.Plan(3, 0)
	want(40, "100%  1.0GiB/0B  1/3 files  -/s  ETA -:…")
	want(60, "[================] 100%  1.0GiB/0B  1/3 files  -/s  ETA -:--")
	for width := 1; width < 200; width++ {
		if n := utf8.RuneCountInString(p.line(width)); n > width {
			t.Errorf("%d columns in %d", n, width)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0:00", 9 * time.Second: "0:09", 750 * time.Second: "12:30", 11045 * time.Second: "3:04:05", 1000 * time.Hour: "-:--"} {
		if got := clock(d); got != want {
			t.Errorf("%v is %q", d, got)
		}
	}
}

func TestNameText(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"plain name": "plain name", "ü": "ü", "a\nb": `"a\nb"`, "\xff": `"\xff"`, "\x1b[2J": `"\x1b[2J"`} {
		if got := Name(name); got != want {
			t.Errorf("%q is shown as %s", name, got)
		}
	}
}
