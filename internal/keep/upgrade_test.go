//go:build linux && (amd64 || arm64)

package keep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/executable"
)

// program makes a copy of the test program. Its name says what it does wrong.
func (r *rig) program(name string) string {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.dir, name)
	if err := executable.Copy(self, path); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// runs checks which program the worker and the keeper execute.
func (r *rig) runs(worker, keeper string) {
	r.t.Helper()
	if got := r.ask(request{Do: "program"}).Text; got != worker {
		r.t.Errorf("the worker's program is %s, not %s", got, worker)
	}
	if got, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", r.pid)); filepath.Base(got) != keeper || err != nil {
		r.t.Errorf("the keeper's program is %s, not %s: %v", got, keeper, err)
	}
}

// Another program takes over everything. If it dies soon after, the previous one goes on.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	first := r.ask(request{Do: "hold", Slot: 1, Text: "in the pipe"})
	pid := r.ask(request{Do: "run", Slot: 2, Text: "cat; exit 3"}).Pid
	r.try(request{Do: "upgrade", Text: r.program("good")}) // not answered: this worker ends
	second := r.nextWorker(first)
	if second.Cause != Replaced || second.Number != 2 || second.Deaths != 0 || len(second.Held) != 4 {
		t.Errorf("the second worker: %+v", second)
	}
	r.runs("good", "tether")
	r.ask(request{Do: "renew"})
	r.runs("good", "good")
	if answer, _ := r.try(request{Do: "upgrade", Text: r.program("early")}); !strings.Contains(answer.Err, causes[Busy]) {
		t.Errorf("another upgrade: %+v", answer)
	}

	unix.Kill(second.Pid, unix.SIGKILL)
	third := r.nextWorker(second)
	if third.Cause != Died || third.Number != 3 || len(third.Held) != 4 {
		t.Errorf("the third worker: %+v", third)
	}
	r.runs("tether", "good")
	if got := r.ask(request{Do: "read", Slot: 1}).Text; got != "in the pipe" {
		t.Errorf("the pipe has %q", got)
	}
	r.ask(request{Do: "closeInput", Slot: 2})
	r.until("the command has ended", func() bool { return state(pid) == 'Z' })
	if exit := r.ask(request{Do: "status", Pid: pid}).Exit; exit.Status != 3 {
		t.Errorf("the command: %+v", exit)
	}
	r.stop(unix.SIGTERM, 0)
}

// SIGHUP lets the worker read its settings again, and upgrades if the file of the program has changed. The next worker is told, too.
func TestUpgradeBySignal(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	first := r.ask(request{})
	unix.Kill(r.pid, unix.SIGHUP) // nothing has changed
	r.ask(request{Do: "renew"})   // by now the signal was handled
	if now := r.ask(request{}); now.Pid != first.Pid {
		t.Errorf("the worker was replaced: %+v", now)
	}
	reloads := func(want string) {
		t.Helper()
		r.until("the worker reads its settings", func() bool { return r.ask(request{Do: "reloads"}).Text == want })
	}
	reloads("1")
	if err := os.Rename(r.program("new"), filepath.Join(r.dir, "tether")); err != nil {
		t.Fatal(err)
	}
	unix.Kill(r.pid, unix.SIGHUP)
	if second := r.nextWorker(first); second.Cause != Replaced {
		t.Errorf("the second worker: %+v", second)
	}
	reloads("1")
	r.runs("tether", "tether (deleted)")
	r.ask(request{Do: "renew"})
	r.runs("tether", "tether")
	r.stop(unix.SIGTERM, 0)
}

// A program that cannot prove itself does not become the worker, and the reason is told.
func TestUpgradeToBrokenProgram(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"crash-prove":    "it ended unexpectedly (exit status 9)",
		"hang-prove":     "it was not ready in time (exit status 137)",
		"not-executable": "it could not be started",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, firstStage{})
			first := r.ask(request{Do: "hold", Slot: 1, Text: "in the pipe"})
			path := r.program(name)
			if name == "not-executable" {
				if err := os.Chmod(path, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if answer, err := r.try(request{Do: "upgrade", Text: path}); err != nil || !strings.Contains(answer.Err, want) {
				t.Errorf("%+v, %v", answer, err)
			}
			if now := r.ask(request{}); now.Pid != first.Pid {
				t.Errorf("the worker was replaced: %+v", now)
			}
			r.runs("tether", "tether")
			r.stop(unix.SIGTERM, 0)
		})
	}
}

// A program dies when it has proved itself, before the running one has made way for it. The next worker of the running one follows,
// and that is no death.
func TestUpgradeToProgramThatDiesBeforeItServes(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	busy := filepath.Join(r.dir, busyFile)
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := r.ask(request{Do: "hold", Slot: 1, Text: "in the pipe"})
	r.try(request{Do: "upgrade", Text: r.program("leave-proved")}) // the verdict may come, or the end of this worker
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	second := r.nextWorker(first)
	if second.Cause != Replaced {
		t.Errorf("the second worker: %+v", second)
	}
	r.runs("tether", "tether")
	r.stop(unix.SIGTERM, 0)
}

// A program that has proved itself and then does not serve is replaced by the previous one.
func TestUpgradeToProgramThatDoesNotServe(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Cause{"crash-serve": Died, "hang-serve": NotReady} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, firstStage{})
			first := r.ask(request{Do: "hold", Slot: 1, Text: "in the pipe"})
			r.try(request{Do: "upgrade", Text: r.program(name)})
			if next := r.nextWorker(first); next.Cause != want || next.Number != 3 {
				t.Errorf("the next worker: %+v", next)
			}
			r.runs("tether", "tether")
			if got := r.ask(request{Do: "read", Slot: 1}).Text; got != "in the pipe" {
				t.Errorf("the pipe has %q", got)
			}
			r.stop(unix.SIGTERM, 0)
		})
	}
}

// The keeper is replaced in place, again and again, and forgets nothing.
func TestRenew(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	first := r.ask(request{Do: "renew"}) // the first keeper has descriptors of the start, too
	before := len(r.descriptors())
	const rounds = 20
	for i := range int32(rounds) {
		r.ask(request{Do: "hold", Slot: i, Which: i, Text: fmt.Sprint(i)})
		r.ask(request{Do: "renew"})
	}
	if got := len(r.descriptors()); got != before+rounds {
		t.Errorf("the keeper has %d descriptors, and had %d before it got %d", got, before, rounds)
	}
	if now := r.killWorker(unix.SIGKILL); now.Number != 2 || len(now.Held) != rounds+2 {
		t.Errorf("after %v: %+v", first, now)
	}
	for i := range int32(rounds) {
		if got := r.ask(request{Do: "read", Slot: i, Which: i}).Text; got != fmt.Sprint(i) {
			t.Errorf("pipe %d has %q", i, got)
		}
	}
	r.stop(unix.SIGTERM, 0)
}

// If the new program does not understand the state, or cannot be executed, the keeper goes on.
func TestFailedRenew(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	first := r.ask(request{})
	r.try(request{Do: "upgrade", Text: r.program("crash-check")})
	second := r.nextWorker(first)
	if answer, err := r.try(request{Do: "renew"}); err != nil || !strings.Contains(answer.Err, "it ended unexpectedly (exit status 9)") {
		t.Errorf("%+v, %v", answer, err)
	}
	r.runs("crash-check", "tether")
	if err := os.Chmod(filepath.Join(r.dir, "crash-check"), 0o600); err != nil {
		t.Fatal(err)
	}
	if answer, err := r.try(request{Do: "renew"}); err != nil || !strings.Contains(answer.Err, "it could not be started") {
		t.Errorf("%+v, %v", answer, err)
	}
	if now := r.ask(request{}); now.Pid != second.Pid {
		t.Errorf("the worker was replaced: %+v", now)
	}
	r.stop(unix.SIGTERM, 0)
}
