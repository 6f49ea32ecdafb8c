package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/tethertest"
)

// The outcomes of a death behind a lasting effect. Whatever it is, the client sees the same: each command runs
// once, with all of its output, input and its exit code.
const (
	again   = "the command was not started: the client's repeated start starts it"
	adopted = "the command runs: the next worker takes it over, and answers the repeated start"
	goesOn  = "nothing is lost: the next worker goes on with the next step"
	repeats = "the step has no effect yet: the next worker, or the client, repeats it"
)

// killPoints are the lasting effects of a worker, by the step in which they happen, and what the next worker does.
var killPoints = []struct{ point, step, outcome string }{
	{"arena.journal.note", "open a session, record a start or a write", repeats},
	{"arena.journal.commit", "open a session, record a start or a write", repeats},
	{"arena.slots.used", "start", again},
	{"arena.slot.serial", "start", again},
	{"arena.slot.clear", "start", again},
	{"arena.slot.take", "start", again},
	{"keep.hold", "start", again},
	{"proc.detail", "start", again},
	{"proc.starting", "start", again},
	{"proc.cloned", "start", adopted},
	{"proc.running", "start", adopted},
	{"arena.blocks.used", "output", repeats},
	{"arena.block.header", "output", repeats},
	{"outlog.block", "output", goesOn},
	{"outlog.stream", "output", repeats},
	{"outlog.between", "output of a terminal", goesOn},
	{"outlog.splice", "output", goesOn},
	{"arena.block.record", "output", goesOn},
	{"outlog.count", "output", goesOn},
	{"outlog.sealed", "output is read", goesOn},
	{"outlog.sent", "output is sent", goesOn},
	{"outlog.delivered", "output is acknowledged", goesOn},
	{"outlog.released", "output is acknowledged", goesOn},
	{"arena.input.bytes", "input", repeats},
	{"arena.input.pair", "input", repeats},
	{"arena.input.accepted", "input", goesOn},
	{"arena.input.sent", "input", goesOn},
	{"proc.input.closing", "end of input", goesOn},
	{"keep.drop", "end of input", goesOn},
	{"proc.used", "exit", repeats},
	{"proc.code", "exit", repeats},
	{"proc.exited", "exit", goesOn},
	{"keep.free", "close", goesOn},
	{"proc.released", "close", goesOn},
	{"proc.reaped", "close", goesOn},
	{"proc.ending", "terminate", goesOn},
	{"outlog.ended", "forget", goesOn},
	{"arena.slot.free", "forget", goesOn},
}

// otherPoints are effects that a short session does not have. The storm and the tests of their packages have them; takeoverPoints has some.
var otherPoints = []string{
	"arena.create", "arena.input.reset", "arena.journal.copy", "arena.journal.switch", "arena.punch", "outlog.end", "outlog.exit",
	"outlog.blocked", "outlog.first", "outlog.mark", "outlog.memory", "outlog.off", "outlog.spool", "outlog.write",
	"keep.beat", "keep.bell", "keep.bye", "keep.leave", "keep.ready", "keep.reap", "keep.renew", "keep.status", "keep.upgrade",
	"session.attempt", "session.restoring", "session.suspect",
	"confine.placeholders", "proc.reported", // see sandboxedPoints
	"proc.buried",                                 // of a new keeper: see proc.TestBury
	"upload.block", "upload.file", "upload.moved", // see TestUploadKillPoints
}

// A worker that dies behind any lasting effect costs nothing.
func TestKillPoints(t *testing.T) {
	t.Parallel()
	names := slices.Clone(otherPoints)
	for _, row := range killPoints {
		names = append(names, row.point)
		for n := 1; n <= tethertest.Scaled(1, 3); n++ {
			for _, way := range tethertest.Scaled([]string{"kill"}, []string{"kill", "panic", "segv"}) {
				where := fmt.Sprintf("%s:%d,%s", row.point, n, way)
				t.Run(where, func(t *testing.T) {
					t.Parallel()
					s := startKept(t, crash.Variable+"="+where, crash.WorkerVariable+"=1")
					first := s.awaitWorker(t, 0)
					shortSession(t, s)
					if n == 1 { // otherwise the effect may not happen so often, or only at the end of the server
						s.awaitWorker(t, first)
					}
					s.stop(t)
				})
			}
		}
	}
	slices.Sort(names)
	if all := crash.Names(); !slices.Equal(all, names) {
		t.Errorf("the table has the points\n%v, the program has\n%v", names, all)
	}
}

// takeoverPoints are the lasting effects of a worker that takes over from a dead one: what it does then, and for a command that the other
// one has started. None of them loses anything: the next worker does it again.
var takeoverPoints = map[string]string{
	"session.attempt":      "counts itself",
	"session.restoring":    "begins with a process",
	"keep.hold":            "lets the keeper hold the lock of the cgroups",
	"keep.free":            "closes descriptors that belong to no process",
	"keep.ready":           "serves",
	"outlog.count":         "records output",
	"arena.input.accepted": "accepts input",
	"arena.input.sent":     "passes input on",
	"keep.drop":            "ends the input",
	"keep.status":          "asks for the status of a command that has ended",
	"proc.code":            "records the exit",
	"keep.reap":            "lets the keeper reap it",
	"proc.reaped":          "knows that",
	"outlog.ended":         "forgets the log",
	"arena.slot.free":      "forgets the process",
}

// A worker that dies behind a lasting effect of its takeover costs nothing.
func TestKillPointsOfTakeover(t *testing.T) {
	t.Parallel()
	for point := range takeoverPoints {
		for _, way := range tethertest.Scaled([]string{"kill"}, []string{"kill", "panic", "segv"}) {
			t.Run(point+","+way, func(t *testing.T) {
				t.Parallel()
				s := startKept(t, crash.Variable+"="+point+":1,"+way, crash.WorkerVariable+"=2")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				c := dialKept(t, s.url)
				count := filepath.Join(t.TempDir(), "count")
				p, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", "echo once >>" + count + "; cat; exit 9"}, Stdin: true})
				if err != nil {
					t.Fatal(err)
				}
				s.killWorker(t)
				const lines = 5
				for i := 1; i <= lines; i++ {
					if err := p.Write(ctx, fmt.Appendln(nil, i)); err != nil {
						t.Fatal(err)
					}
				}
				if err := p.CloseStdin(ctx); err != nil {
					t.Error(err)
				}
				var out bytes.Buffer
				if exit, err := p.CopyOutput(ctx, &out, io.Discard); err != nil || exit.Code != 9 {
					t.Errorf("%+v, %v", exit, err)
				}
				checkNumbered(t, "cat", out.String(), lines)
				if text, _ := os.ReadFile(count); string(text) != "once\n" {
					t.Errorf("it has run %d times", bytes.Count(text, []byte("\n")))
				}
				if err := c.End(ctx); err != nil {
					t.Error(err)
				}
				s.stop(t)
				if !strings.Contains(s.stderr.String(), "crash point "+point) {
					t.Error("no worker has died there")
				}
			})
		}
	}
}

// A worker dies when it has asked for an upgrade, or for the replacement of the keeper. The keeper does it, and nothing is lost.
func TestKillPointsOfUpgrade(t *testing.T) {
	t.Parallel()
	for point, hasty := range map[string]string{"keep.upgrade": "1", "keep.renew": hastyRenew} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			first, second := variant(t, "version-first"), variant(t, "version-second")
			env := []string{hastyVariable + "=" + hasty, crash.Variable + "=" + point + ":1", crash.WorkerVariable + "=1"}
			s := startKeeperProgram(t, first, env, "--listen", "unix://"+filepath.Join(t.TempDir(), "t.sock"))
			p := startEcho(t, dialKept(t, s.url))
			if point == "keep.upgrade" {
				s.upgrade(t, "--to", second) // it may be told that the worker has died
				s.awaitKeeper(t, second)
			}
			tethertest.Eventually(t, func() error { // the first worker, which dies, may serve for a while or not at all
				if number := s.state(t).Worker; number < 2 {
					return fmt.Errorf("worker %d serves", number)
				}
				return nil
			})
			checkEcho(t, p)
			if point == "keep.renew" { // the next worker has asked for a replacement too, and a signal during it ends the keeper (docs/keeper.md)
				s.Process.Signal(syscall.SIGTERM)
				s.Wait()
			} else {
				s.stop(t)
			}
			if !strings.Contains(s.stderr.String(), "crash point "+point) {
				t.Error("no worker has died there")
			}
		})
	}
}

// A worker that panics while it takes over a process serves no client any more: it would say that it does not know the
// process, and the client would give it up.
func TestPanicDuringTakeover(t *testing.T) {
	t.Parallel()
	// Terminating a process passes this point, and so does the takeover of a process that is being terminated.
	s := startKept(t, crash.Variable+"=proc.ending:1,panic", crash.WorkerVariable+"=1,2")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := dialKept(t, s.url)
	p, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", "echo begin; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Terminate(ctx); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if exit, err := p.CopyOutput(ctx, &out, io.Discard); err != nil || exit.Code < 128 {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := c.End(ctx); err != nil {
		t.Error(err)
	}
	s.stop(t)
}

// A worker dies when it has killed a command with everything that it started. Commands that are started later run: the kernel also
// kills what comes into a cgroup that was killed, so the next worker must not use that again.
func TestStartAfterTerminationByDeadWorker(t *testing.T) {
	t.Parallel()
	s := startKept(t, crash.Variable+"=proc.code:1", crash.WorkerVariable+"=1")
	first := s.awaitWorker(t, 0)
	c := dialKept(t, s.url)
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "trap '' TERM; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it kills at once
		if _, err := p.Terminate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code < 128 {
		t.Errorf("%+v, %v", exit, err)
	}
	s.awaitWorker(t, first)
	for range 10 { // one of them would get the cgroup
		p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "echo it runs; exit 3"}})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if exit, err := p.CopyOutput(t.Context(), &out, io.Discard); err != nil || exit.Code != 3 || out.String() != "it runs\n" {
			t.Errorf("%+v, %v, %q", exit, err, out.String())
		}
	}
	s.stop(t)
}

// If the worker dies while it ends the server, another one goes on with that: nothing is left, also of the state directory.
func TestDeathWhileStopping(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"arena.journal.commit:3", "proc.ending:1", "outlog.ended:1", "proc.released:1", "arena.slot.free:1"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := startKept(t, crash.Variable+"="+point, crash.WorkerVariable+"=1")
			c := dialKept(t, s.url)
			if _, err := c.Start(t.Context(), client.Command{Argv: []string{"sleep", "1000"}}); err != nil {
				t.Fatal(err)
			}
			s.stop(t)
			if deaths := strings.Count(s.stderr.String(), "crash point"); deaths == 0 {
				t.Errorf("no worker has died at %s", point)
			}
		})
	}
}

// shortSession does a bit of everything.
func shortSession(t *testing.T, s *keptServer) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := dialKept(t, s.url)
	count := filepath.Join(t.TempDir(), "count")
	cat, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", "echo once >>" + count + "; cat; exit 5"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	var echoed, printed bytes.Buffer
	const lines = 20
	for i := 1; i <= lines; i++ {
		if err := cat.Write(ctx, fmt.Appendln(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cat.CloseStdin(ctx); err != nil {
		t.Fatal(err)
	}
	if exit, err := cat.CopyOutput(ctx, &echoed, io.Discard); err != nil || exit.Code != 5 {
		t.Errorf("cat: %+v, %v", exit, err)
	}
	checkNumbered(t, "cat", echoed.String(), lines)

	terminal, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", "echo once >>" + count + "; seq 100; exit 3"}, TTY: true})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := terminal.CopyOutput(ctx, &printed, io.Discard); err != nil || exit.Code != 3 {
		t.Errorf("terminal: %+v, %v", exit, err)
	}
	checkNumbered(t, "terminal", printed.String(), 100)

	sleep, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", "echo once >>" + count + "; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	tethertest.Eventually(t, func() error {
		if text, _ := os.ReadFile(count); strings.Count(string(text), "\n") < 3 {
			return fmt.Errorf("%d commands have run", strings.Count(string(text), "\n"))
		}
		return nil
	})
	if _, err := sleep.Terminate(ctx); err != nil {
		t.Errorf("terminate: %v", err)
	}
	if exit, err := sleep.Wait(ctx); err != nil || exit.Code < 128 {
		t.Errorf("sleep: %+v, %v", exit, err)
	}
	if text, _ := os.ReadFile(count); string(text) != "once\nonce\nonce\n" {
		t.Errorf("the three commands have run %d times", strings.Count(string(text), "\n"))
	}
	if err := c.End(ctx); err != nil {
		t.Error(err)
	}
}
