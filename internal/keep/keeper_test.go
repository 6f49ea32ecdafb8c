//go:build linux && (amd64 || arm64)

package keep

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptors, with what is in a pipe, and the listener survive the worker, however it ends.
func TestDescriptorsSurviveTheWorker(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		die    request
		sig    unix.Signal
		status int
	}{
		{"killed", request{}, unix.SIGKILL, 128 + 9},
		{"panic", request{Do: "panic"}, 0, 2},
		{"exit", request{Do: "exit", Count: 0}, 0, 0},
		{"fault", request{}, unix.SIGSEGV, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, firstStage{})
			first := r.ask(request{Do: "hold", Slot: 7, Which: 3, Text: "in the pipe"})
			if first.Number != 1 || first.Cause != None {
				t.Errorf("the first worker: %+v", first)
			}
			if row.sig != 0 {
				unix.Kill(first.Pid, row.sig)
			} else {
				r.try(row.die)
			}
			second := r.nextWorker(first)
			if second.Number != 2 || second.Cause != Died || second.Detail != row.status || second.Deaths != 1 {
				t.Errorf("the second worker: %+v", second)
			}
			if !slices.Contains(second.Held, [2]int32{7, 3}) || len(second.Held) != 3 {
				t.Errorf("the second worker was given %v", second.Held)
			}
			if got := r.ask(request{Do: "read", Slot: 7, Which: 3}).Text; got != "in the pipe" {
				t.Errorf("the pipe has %q", got)
			}
			r.stop(unix.SIGTERM, 0)
		})
	}
}

// pause stops a process, and returns when it has stopped.
func (r *rig) pause(pid int) {
	r.t.Helper()
	unix.Kill(pid, unix.SIGSTOP)
	r.until("it has stopped", func() bool { return state(pid) == 'T' })
}

// killNow kills a process, and returns when all its threads have ended.
func (r *rig) killNow(pid int) {
	r.t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	defer unix.Close(fd)
	unix.Kill(pid, unix.SIGKILL)
	end := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	r.until("it is dead", func() bool { n, _ := unix.Poll(end, 0); return n > 0 })
}

// Messages that are in the queue when the worker dies are handled, also if the worker dies with unread answers: then the
// socket reports ECONNRESET before it gives out the rest.
func TestQueuedMessagesSurviveTheWorker(t *testing.T) {
	t.Parallel()
	for _, unread := range []bool{false, true} {
		t.Run(fmt.Sprintf("unread answers %v", unread), func(t *testing.T) {
			t.Parallel()
			r := startRig(t, firstStage{})
			first := r.ask(request{})
			if unread {
				r.ask(request{Do: "askAndDoNotRead"})
			}
			r.pause(r.pid)
			const queued = 100
			r.ask(request{Do: "holdMany", Slot: 1, Count: queued})
			r.killNow(first.Pid)
			unix.Kill(r.pid, unix.SIGCONT)
			if second := r.nextWorker(first); len(second.Held) != queued+2 {
				t.Errorf("the second worker was given %d descriptors", len(second.Held))
			}
			r.stop(unix.SIGTERM, 0)
		})
	}
}

// More messages than the queue has room for: the worker waits for the keeper.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	const many = 2000
	first := r.ask(request{Do: "holdMany", Slot: 1, Count: many})
	unix.Kill(first.Pid, unix.SIGKILL)
	if second := r.nextWorker(first); len(second.Held) != many+2 {
		t.Errorf("the second worker was given %d descriptors", len(second.Held))
	}
	before := len(r.descriptors())
	r.ask(request{Do: "free", Slot: 1})
	r.until("the descriptors are closed", func() bool { return len(r.descriptors()) == before-many })
	r.stop(unix.SIGTERM, 0)
}

// A command reads to the end of its input as soon as the worker has dropped it, although the keeper had a copy, and the
// exit of a command that was adopted is known until it is reaped.
func TestAdoptedCommand(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	own := r.ask(request{Do: "run", Slot: 1, Text: "cat; exit 5"}).Pid
	r.ask(request{Do: "closeInput", Slot: 1})
	r.until("the command has ended", func() bool { return state(own) == 'Z' })

	pid := r.ask(request{Do: "run", Slot: 2, Text: "cat; exit 7"}).Pid
	silent := r.ask(request{Do: "run", Slot: 3, Text: "exec cat"}).Pid
	first := r.ask(request{})
	r.pause(r.pid)
	r.killNow(first.Pid)
	unix.Kill(silent, unix.SIGTERM) // ends while there is no worker
	r.until("the command has ended", func() bool { return state(silent) == 'Z' })
	unix.Kill(r.pid, unix.SIGCONT)
	r.nextWorker(first)

	for _, command := range []int{pid, silent, own} {
		r.ask(request{Do: "adopt", Pid: command})
	}
	if exit := r.ask(request{Do: "status", Pid: pid}).Exit; exit != (Exit{Child: true, Status: -1}) {
		t.Errorf("a command that runs: %+v", exit)
	}
	r.ask(request{Do: "closeInput", Slot: 2})
	r.until("the command has ended", func() bool { return state(pid) == 'Z' })
	for command, status := range map[int]int{own: 5, pid: 7, silent: 128 + 15} {
		for range 2 {
			exit := r.ask(request{Do: "status", Pid: command}).Exit
			if !exit.Child || !exit.Ended || exit.Status != status {
				t.Errorf("a command that ended with %d: %+v", status, exit)
			}
			if used := exit.Used; used == nil || used.Largest < 64<<10 || used.Largest > 1<<40 || used.User+used.System <= 0 || used.User+used.System > time.Minute {
				t.Errorf("a command that ended with %d has used %+v", status, used)
			}
		}
		r.ask(request{Do: "reap", Pid: command})
		if exit := r.ask(request{Do: "status", Pid: command}).Exit; exit.Child {
			t.Errorf("a command that was reaped: %+v", exit)
		}
	}
	r.until("the worker is the only child", func() bool { return len(r.children()) == 1 })
	r.ask(request{Do: "many", Pid: pid, Count: 500})
	r.stop(unix.SIGINT, 0)
}

// A worker that cannot start is started again and again, with growing pauses. Commands run on meanwhile, their exits are
// kept, and orphans are reaped.
func TestWorkerThatCannotStart(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{Notice: true})
	path := func(name string) string { return filepath.Join(r.dir, name) }
	pid := r.ask(request{Do: "run", Slot: 1, Text: fmt.Sprintf(
		`cd %s; until [ -e go ]; do sleep 0.02; done; (exit 0 &); (exit 0 &); echo >done; exit 3`, r.dir)}).Pid
	first := r.ask(request{})
	r.crashWorkers(first)

	const kept = 2 // descriptors of the server
	if notice, err := os.ReadFile(path("notice")); err != nil || !strings.Contains(string(notice), "commands keep running") {
		t.Errorf("notice %q: %v", notice, err)
	}
	for i, pause := range []time.Duration{0, 0, 50 * time.Millisecond, 200 * time.Millisecond, time.Second} {
		took := r.ledger.startTimes[i+1].Load() - r.ledger.startTimes[i].Load()
		if i > 0 && took < int64(pause) {
			t.Errorf("start %d followed after %v, not after %v", i+2, time.Duration(took), pause)
		}
	}
	if err := os.WriteFile(path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.until("the command has ended", func() bool { return state(pid) == 'Z' })
	r.until("its orphans are reaped", func() bool { return slices.Equal(r.children(), []int{pid}) })

	if err := os.Remove(path(crashFile)); err != nil {
		t.Fatal(err)
	}
	next := r.nextWorker(first)
	if next.Deaths != quickDeaths+1 || next.Cause != Died || next.Detail != 9 || len(next.Held) != kept+1 {
		t.Errorf("the next worker: %+v", next)
	}
	if exit := r.ask(request{Do: "status", Pid: pid}).Exit; !exit.Child || !exit.Ended || exit.Status != 3 || exit.Used == nil {
		t.Errorf("the command: %+v", exit)
	}
	r.stop(unix.SIGTERM, 0)
}

// crashWorkers lets the worker and the next ones die until the keeper tries only rarely.
func (r *rig) crashWorkers(first response) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, crashFile), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
	unix.Kill(first.Pid, unix.SIGKILL)
	r.until("the keeper tries only rarely", func() bool { return strings.Contains(r.log(), "clients wait") })
}

// If no worker has ever served, the server ends.
func TestWorkerThatHasNeverStarted(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{Mode: modeCrash, JSON: true})
	r.wait(1)
	if log := r.log(); !strings.Contains(log, `"msg":"the worker cannot be started: the server ends","status":9}`) {
		t.Errorf("log:\n%s", log)
	}
	if starts := r.ledger.starts.Load(); starts != quickDeaths+1 {
		t.Errorf("%d starts", starts)
	}
}

// stubborn is a command that does not end on SIGTERM, with a descendant in another session that does not either.
const stubborn = `trap '' TERM HUP; setsid sh -c 'while :; do sleep 1; done' & while :; do sleep 1; done`

// If nothing should outlive a worker, all that it has started is killed before the next one serves, also what has left its session
// and its parent; and also if no worker can be started. Children that the process had before are spared.
func TestKillOrphans(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{Purges: true, Before: true})
	var other int
	text, err := os.ReadFile(filepath.Join(r.dir, "before"))
	if _, serr := fmt.Sscan(string(text), &other); serr != nil {
		t.Fatal(err, serr)
	}
	t.Cleanup(func() { unix.Kill(other, unix.SIGKILL) })
	start := func() {
		r.ask(request{Do: "run", Slot: 1, Text: stubborn})
		r.ask(request{Do: "run", Slot: 2, Text: "(" + stubborn + ") & wait"})
		r.until("the commands run", func() bool { return len(r.processes()) >= 2+5+4 }) // each loop has a sleep
	}
	start()
	next := r.killWorker(unix.SIGKILL)
	if left := r.processes(); len(left) != 2 {
		t.Errorf("the keeper is %d, the worker is %d, and there are %v", r.pid, next.Pid, left)
	}
	r.until("there are no other children", func() bool { return slices.Equal(r.children(), []int{other, next.Pid}) })
	r.ask(request{Do: "renew"}) // the next keeper does the same
	start()
	r.crashWorkers(r.ask(request{}))
	r.until("the keeper is alone", func() bool { return slices.Equal(r.processes(), []int{r.pid}) })
	r.stop(unix.SIGTERM, 0)
	if now := state(other); now != 'S' {
		t.Errorf("the state of a process that does not belong to the server is %c", now)
	}
}

// A keeper that is told to stop while there is no worker ends everything itself.
func TestStopWithoutWorker(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	r.ask(request{Do: "run", Slot: 1, Text: stubborn})
	r.ask(request{Do: "run", Slot: 2, Text: "cat"})
	r.crashWorkers(r.ask(request{}))
	r.stop(unix.SIGTERM, 0)
}

// A keeper that is told to stop while the worker does not react kills it and ends everything itself.
func TestStopWithFrozenWorker(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	r.ask(request{Do: "run", Slot: 1, Text: stubborn})
	r.pause(r.ask(request{}).Pid)
	r.stop(unix.SIGTERM, 128+9)
}

// A worker without signs of life is replaced.
func TestFrozenWorker(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{Beat: 2 * time.Second})
	first := r.ask(request{Do: "hold", Slot: 1, Text: "in the pipe"})
	r.pause(first.Pid)
	second := r.nextWorker(first)
	if second.Cause != Frozen || second.Detail != 128+9 {
		t.Errorf("the second worker: %+v", second)
	}
	if got := r.ask(request{Do: "read", Slot: 1}).Text; got != "in the pipe" {
		t.Errorf("the pipe has %q", got)
	}
	r.stop(unix.SIGTERM, 0)
}

// If the keeper was stopped together with the worker, the worker is not taken for frozen.
func TestStoppedKeeperBlamesNoWorker(t *testing.T) {
	t.Parallel()
	const beat = 2 * time.Second
	r := startRig(t, firstStage{Beat: beat})
	first := r.ask(request{})
	r.pause(r.pid)
	r.pause(first.Pid)
	over := now() + int(beat) + lateness + int(beat)/2
	r.until("the beat is overdue", func() bool { return now() > over })
	unix.Kill(r.pid, unix.SIGCONT)
	r.until("the keeper runs", func() bool { return state(r.pid) == 'S' })
	unix.Kill(first.Pid, unix.SIGCONT)
	r.ask(request{Do: "renew"}) // by now the keeper has handled its timers
	if now := r.ask(request{}); now.Pid != first.Pid {
		t.Errorf("the worker was replaced: %+v", now)
	}
	r.stop(unix.SIGTERM, 0)
}

// If the keeper is killed, the worker gets SIGTERM and ends everything.
func TestKilledKeeper(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	adopted := r.ask(request{Do: "run", Slot: 1, Text: "cat"}).Pid
	r.killWorker(unix.SIGKILL)
	r.ask(request{Do: "adopt", Pid: adopted})
	r.ask(request{Do: "run", Slot: 2, Text: "cat"})
	r.stop(unix.SIGKILL, -1)
}

// The worker gets no signals of the keeper's terminal.
func TestWorkerHasItsOwnSession(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	worker := r.ask(request{}).Pid
	if session, err := unix.Getsid(worker); err != nil || session != worker {
		t.Errorf("session %d, worker %d: %v", session, worker, err)
	}
	r.stop(unix.SIGTERM, 0)
}

// Commands get the limit of descriptors that the keeper has inherited, and not the one to which Go has raised it.
func TestCommandsInheritTheLimitOfDescriptors(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	r.ask(request{Do: "renew"})
	r.killWorker(unix.SIGKILL)
	pid := r.ask(request{Do: "run", Slot: 1, Text: fmt.Sprintf("ulimit -Sn >%s/limit", r.dir)}).Pid
	r.until("the command has ended", func() bool { return state(pid) == 'Z' })
	if limit, err := os.ReadFile(filepath.Join(r.dir, "limit")); string(limit) != fmt.Sprintln(softFiles) {
		t.Errorf("the limit is %q: %v", limit, err)
	}
	r.stop(unix.SIGTERM, 0)
}

// If the keeper has no descriptors left, the worker is told, and what the keeper holds is safe.
func TestDescriptorsUsedUp(t *testing.T) {
	t.Parallel()
	const files = 200
	r := startRig(t, firstStage{Files: files})
	room := r.ask(request{}).Limit
	if room > files-reserved || room < files-reserved-1 { // Go leaves one out
		t.Errorf("the limit is %d", room)
	}
	answer, err := r.try(request{Do: "holdMany", Slot: 1, Count: files})
	if err != nil || !strings.Contains(answer.Err, ErrFull.Error()) {
		t.Errorf("%+v, %v", answer, err)
	}
	r.ask(request{Do: "holdUnchecked", Slot: 2})
	r.until("the worker is told", func() bool { return strings.Contains(r.log(), "missed 2 0") })
	if next := r.killWorker(unix.SIGKILL); len(next.Held) != room {
		t.Errorf("the next worker was given %d descriptors", len(next.Held))
	}
	r.ask(request{Do: "free", Slot: 1})
	r.ask(request{Do: "hold", Slot: 3})
	if next := r.killWorker(unix.SIGKILL); len(next.Held) != 3 {
		t.Errorf("the next worker was given %d descriptors", len(next.Held))
	}
	r.stop(unix.SIGTERM, 0)
}

// A keeper at rest needs little memory. It does not execute itself for that: a signal that arrives just then would end it alone.
func TestKeeperRests(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	r.ask(request{Do: "hold", Slot: 1, Text: "in the pipe"})
	name := fmt.Sprintf("/proc/%d/cmdline", r.pid)
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	serving := r.programMemory()
	r.until("the keeper has unmapped its program", func() bool { return r.programMemory() < serving/2 })
	if after, err := os.ReadFile(name); !bytes.Equal(before, after) {
		t.Errorf("the keeper has executed %q, %v", after, err)
	}
	r.killWorker(unix.SIGKILL)
	if got := r.ask(request{Do: "read", Slot: 1}).Text; got != "in the pipe" {
		t.Errorf("the pipe has %q", got)
	}
	r.stop(unix.SIGTERM, 0)
}

// programMemory returns how many KiB of files are mapped in the keeper. Files of a file system in memory count as shared memory.
func (r *rig) programMemory() (kib int) {
	r.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.pid))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, field := range []string{"\nRssFile:", "\nRssShmem:"} {
		_, rest, _ := bytes.Cut(status, []byte(field))
		var n int
		if _, err := fmt.Sscan(string(rest), &n); err != nil {
			r.t.Fatal(err)
		}
		kib += n
	}
	return kib
}
