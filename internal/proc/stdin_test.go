//go:build linux

package proc

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
)

func itoa(n int) string { return strconv.Itoa(n) }

// write writes and waits until the write is answered.
func write(t *testing.T, p *Process, text string, want error) {
	t.Helper()
	result := make(chan error, 2)
	p.Write([]byte(text), func(err error) { result <- err })
	select {
	case err := <-result:
		if !errors.Is(err, want) {
			t.Errorf("write of %d bytes: %v, want %v", len(text), err, want)
		}
	case <-time.After(testTimeout):
		t.Errorf("write of %d bytes was never answered", len(text))
	}
}

func cat() Spec { return Spec{Argv: []string{"cat"}, Dir: "/", PipeStdin: true} }

func TestStdinUntilEOF(t *testing.T) {
	s := newSupervisor(t, Config{})
	p, sink := start(t, s, cat())
	write(t, p, "", nil)
	write(t, p, "one ", nil)
	write(t, p, "two", nil)
	sink.awaitText(outlog.Stdout, "one two")
	if err := p.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	write(t, p, "late", ErrStdinClosed)
	awaitDone(t, p)
	if got := sink.text(outlog.Stdout); got != "one two" || sink.code != 0 {
		t.Errorf("cat gave %q, code %d", got, sink.code)
	}
}

func TestNoStdin(t *testing.T) {
	s := newSupervisor(t, Config{})
	p, sink := start(t, s, Spec{Argv: []string{"cat"}, Dir: "/"})
	write(t, p, "x", ErrStdinClosed)
	if err := p.CloseStdin(); !errors.Is(err, ErrStdinClosed) {
		t.Errorf("close: %v", err)
	}
	awaitDone(t, p) // /dev/null ends at once
	if sink.code != 0 {
		t.Errorf("code %d", sink.code)
	}
}

// Many writes, some larger than the queue, arrive in order although the child is slow.
func TestStdinKeepsOrder(t *testing.T) {
	s := newSupervisor(t, Config{})
	spec := shell("read go; cat")
	spec.PipeStdin = true
	p, sink := start(t, s, spec)
	var want strings.Builder
	var pending sync.WaitGroup
	for i, size := range []int{70000, 10, stdinQueueLimit + 5, 100, 300000, 900000, 1, stdinQueueLimit} {
		text := strings.Repeat(string(rune('a'+i)), size)
		want.WriteString(text)
		if i == 0 {
			text = "go\n" + text
		}
		pending.Add(1)
		p.Write([]byte(text), func(err error) {
			if err != nil {
				t.Errorf("write %d: %v", i, err)
			}
			pending.Done()
		})
	}
	if err := p.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	pending.Wait()
	awaitDone(t, p)
	if got := sink.text(outlog.Stdout); got != want.String() {
		t.Errorf("got %d bytes, want %d, or out of order", len(got), want.Len())
	}
}

// fillStdin writes until a write has to wait, and returns the channel for its
// answer.
func fillStdin(t *testing.T, p *Process) (waiting chan error) {
	t.Helper()
	block := make([]byte, 256<<10)
	for range 64 {
		answer := make(chan error, 1)
		p.Write(block, func(err error) { answer <- err })
		select {
		case err := <-answer:
			if err != nil {
				t.Fatalf("write: %v", err)
			}
		default:
			return answer
		}
	}
	t.Fatal("the queue has no limit")
	return nil
}

func TestFullStdinDoesNotDelayTerminate(t *testing.T) {
	s := newSupervisor(t, Config{})
	for _, tty := range []bool{false, true} {
		spec := shell("stty raw -echo 2>/dev/null; echo ready; exec sleep 1000")
		spec.PipeStdin, spec.TTY = true, tty
		p, sink := start(t, s, spec)
		sink.awaitText(map[bool]outlog.Stream{false: outlog.Stdout, true: outlog.PTY}[tty], "ready")
		waiting := fillStdin(t, p)
		if !p.Terminate() {
			t.Error("was not running")
		}
		select {
		case err := <-waiting:
			if !errors.Is(err, ErrTerminated) {
				t.Errorf("waiting write: %v", err)
			}
		case <-time.After(testTimeout):
			t.Error("waiting write was not answered")
		}
		write(t, p, "x", ErrTerminated)
		awaitDone(t, p)
		if sink.code != 143 {
			t.Errorf("tty %v: code %d", tty, sink.code)
		}
		write(t, p, "x", ErrTerminated)
	}
}

func TestWaitingWriteGoesOnWhenTheChildReads(t *testing.T) {
	s := newSupervisor(t, Config{})
	spec := shell("trap 'exec cat >/dev/null' USR1; echo ready; while :; do sleep 0.02; done")
	spec.PipeStdin = true
	p, sink := start(t, s, spec)
	sink.awaitText(outlog.Stdout, "ready")
	waiting := fillStdin(t, p)
	if err := p.Signal(sigUSR1); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waiting:
		if err != nil {
			t.Errorf("waiting write: %v", err)
		}
	case <-time.After(testTimeout):
		t.Error("waiting write was not accepted")
	}
	if err := p.CloseStdin(); err != nil {
		t.Error(err)
	}
	awaitDone(t, p)
	if sink.code != 0 {
		t.Errorf("code %d", sink.code)
	}
	if in := p.stdin.(*stdin); in.busy || in.queue != nil || in.bytes != 0 {
		t.Errorf("queue not empty: %d bytes", in.bytes)
	}
}

func TestStdinClosedByTheChild(t *testing.T) {
	s := newSupervisor(t, Config{})
	spec := shell("exec <&-; echo ready; sleep 1000")
	spec.PipeStdin = true
	p, sink := start(t, s, spec)
	sink.awaitText(outlog.Stdout, "ready")
	write(t, p, "x", ErrStdinClosed)
	write(t, p, "x", ErrStdinClosed)
}

func TestChildThatExitsFailsWaitingWrites(t *testing.T) {
	s := newSupervisor(t, Config{})
	spec := shell("trap exit USR1; echo ready; while :; do sleep 0.02; done")
	spec.PipeStdin = true
	p, sink := start(t, s, spec)
	sink.awaitText(outlog.Stdout, "ready")
	waiting := fillStdin(t, p)
	p.Signal(sigUSR1)
	select {
	case err := <-waiting:
		if !errors.Is(err, ErrStdinClosed) {
			t.Errorf("waiting write: %v", err)
		}
	case <-time.After(testTimeout):
		t.Error("waiting write was not answered")
	}
	awaitDone(t, p)
	write(t, p, "x", ErrStdinClosed)
}

// A descendant that has inherited the input of a child that has exited gets the end
// of file: the client's writes fail from then on.
func TestInheritedStdinEnds(t *testing.T) {
	s := newSupervisor(t, Config{})
	p, sink := start(t, s, Spec{
		Argv: []string{"sh", "-c", "exec 3<&0; { cat <&3; echo over; } & exit 3"}, Dir: "/", PipeStdin: true,
	})
	awaitDone(t, p)
	if got := sink.text(outlog.Stdout); got != "over\n" || sink.code != 3 {
		t.Errorf("gave %q, code %d", got, sink.code)
	}
}
