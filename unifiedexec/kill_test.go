package unifiedexec

import (
	"context"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
)

// If a command is killed while the user is asked whether to run it again, the question is
// withdrawn, and the command is not run again whatever the user answers.
func TestKillDuringTheQuestion(t *testing.T) {
	for _, answered := range []bool{false, true} {
		asked, answer := make(chan struct{}), make(chan struct{})
		e := &fake{sandboxType: "linuxSeccomp"}
		r := newRigOn(t, e, func(c *Config) {
			sandboxed(ReadOnly(), granular)(c)
			c.Approver = ApproverFunc(func(ctx context.Context, _ Question) (Decision, error) {
				close(asked)
				if answered {
					<-answer
					return Approved, nil
				}
				<-ctx.Done()
				return Declined, context.Cause(ctx)
			})
		})
		id := wantRunning(t, r.exec(ExecArgs{Cmd: "x", YieldTimeMs: ptr[int64](1)}), "")
		polled := make(chan *Result, 1)
		go func() { polled <- r.stdin(id, "", atEnd) }()
		e.all()[0].exits(client.Exit{Code: 1, SandboxDenied: true})
		<-asked
		if err := r.Kill(tethertest.Within(t), id); err != nil {
			t.Fatal(err)
		}
		close(answer)
		got := <-polled
		if n := len(e.all()); n != 1 || got.ExitCode == nil || *got.ExitCode != 1 || !strings.Contains(got.Text(), "was not run again") {
			t.Errorf("%d starts, and then\n%s", n, got.Text())
		}
	}
}

// If the executor has not confined a command as requested, the command is ended, also if the call
// has ended.
func TestUnconfinedIsEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := &fake{sandboxType: noSandbox, script: func(int, *fakeProcess) { cancel() }}
	r := newRigOn(t, e, sandboxed(ReadOnly(), Policy{}))
	if _, err := r.ExecCommand(ctx, ExecArgs{Cmd: "x"}); err == nil {
		t.Error("the call succeeded")
	}
	tethertest.Eventually(t, func() error {
		if e.all()[0].terminations() == 0 {
			return context.DeadlineExceeded
		}
		return nil
	})
}

// If a character is printed in two parts, all of it is in the result that has its last part.
func TestCharacterBetweenResults(t *testing.T) {
	e := &fake{}
	r := newRigOn(t, e, nil)
	e.script = func(_ int, p *fakeProcess) { p.prints("one \xe2\x82") }
	id := wantRunning(t, r.exec(ExecArgs{Cmd: "x", YieldTimeMs: ptr[int64](1)}), "one ")
	p := e.all()[0]
	p.prints("\xac two \xe2")
	p.exits(client.Exit{})
	p.closes()
	wantEnd(t, r.stdin(id, "", atEnd), 0, "€ two \ufffd")
}

func TestCutUnfinished(t *testing.T) {
	long := strings.Repeat("x", half)
	for _, row := range []struct{ text, rest string }{
		{"", ""}, {"x", ""}, {"x\xe2\x82", "\xe2\x82"}, {"\xff", ""},
		{long + "y\xf0\x9f\x98", "\xf0\x9f\x98"},
		{long + long + "y\xf0\x9f\x98", "\xf0\x9f\x98"}, // around the ring
	} {
		var b headTail
		b.add([]byte(row.text))
		before := b.total()
		rest := string(b.cutUnfinished())
		kept := string(b.bytes())
		if rest != row.rest || b.total()+int64(len(rest)) != before || !strings.HasSuffix(row.text, kept[max(0, len(kept)-10):]+rest) {
			t.Errorf("%d bytes: %q after %q", len(row.text), rest, kept[max(0, len(kept)-10):])
		}
	}
}
