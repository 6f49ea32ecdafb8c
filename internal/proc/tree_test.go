//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
)

const sigUSR1 = syscall.SIGUSR1

// inBothModes runs a test with cgroups, where there are any, and without.
func inBothModes(t *testing.T, test func(t *testing.T, s *Supervisor)) {
	t.Run("cgroup", func(t *testing.T) {
		s := newSupervisor(t, Config{})
		if s.host.cgroups == nil {
			t.Skip("no writable cgroup file system of version 2 here")
		}
		test(t, s)
	})
	t.Run("table", func(t *testing.T) { test(t, newSupervisor(t, Config{NoCgroups: true})) })
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	entry, ok := readProcess(pid)
	return ok && !entry.dead
}

func awaitDeath(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if p, err := pin(pid); err == nil {
			p.await(time.Now().Add(testTimeout))
			p.close()
		}
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

var pidLine = regexp.MustCompile(`pid=(\d+)\n`)

// awaitPids waits for n lines pid=N.
func awaitPids(t *testing.T, sink *recorder, n int) (pids []int) {
	t.Helper()
	sink.await("pids", func() bool { return len(pidLine.FindAllString(sink.text(outlog.Stdout), -1)) >= n })
	for _, m := range pidLine.FindAllStringSubmatch(sink.text(outlog.Stdout), -1) {
		pid, _ := strconv.Atoi(m[1])
		pids = append(pids, pid)
	}
	return pids
}

// Descendants of all kinds: in the group, in a group of their own, in a session of
// their own, orphaned, ignoring SIGTERM.
const descendants = `
	sleep 1000 & echo pid=$!
	setsid sh -c 'echo pid=$$; exec sleep 1000' &
	setsid sh -c 'trap "" TERM; echo pid=$$; while :; do sleep 1000; done' &
	(setsid sh -c 'echo pid=$$; exec sleep 1000' &)
`

func TestTerminateEndsTheWholeTree(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		s.grace = 2 * time.Second // enough for processes that handle SIGTERM, however busy the machine
		p, sink := start(t, s, shell(descendants+"echo pid=$$; wait; sleep 1000"))
		pids := awaitPids(t, sink, 5)
		if !p.Terminate() {
			t.Error("was not running")
		}
		awaitDone(t, p)
		awaitDeath(t, pids...)
		if sink.code != 143 {
			t.Errorf("code %d", sink.code)
		}
		if p.Terminate() {
			t.Error("running after close")
		}
	})
}

func TestTerminateSendsSIGTERMFirst(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		s.grace = time.Hour
		p, sink := start(t, s, shell("trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.02; done"))
		sink.awaitText(outlog.Stdout, "ready")
		p.Terminate()
		awaitDone(t, p)
		if got := sink.text(outlog.Stdout); got != "ready\nbye\n" || sink.code != 9 {
			t.Errorf("output %q, code %d", got, sink.code)
		}
	})
}

const ignoresTERM = `trap '' TERM; echo pid=$$; while :; do sleep 1000; done`

func TestTerminateKillsAfterItsGrace(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		p, sink := start(t, s, shell(ignoresTERM))
		awaitPids(t, sink, 1)
		began := time.Now()
		p.Terminate()
		awaitDone(t, p)
		if took := time.Since(began); took < terminateGrace {
			t.Errorf("killed after %v", took)
		}
		if sink.code != 137 {
			t.Errorf("code %d", sink.code)
		}
	})
}

// startHeavy starts a process whose child holds none of our pipes and takes a while to
// end, because it has much memory to free.
func startHeavy(t *testing.T, s *Supervisor, before string) (p *Process, child int) {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p, sink := start(t, s, shell(fmt.Sprintf(`
		exec 3>&1
		sh -c '%s x=$(head -c 100000000 /dev/zero | tr "\0" x); echo pid=$$ >&3; exec 3>&-; read y <> %s' >/dev/null 2>&1 &
		exec 3>&-
		wait`, before, fifo)))
	return p, awaitPids(t, sink, 1)[0]
}

func TestTerminateWaitsForKilledProcesses(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		s.grace = time.Millisecond
		p, child := startHeavy(t, s, `trap "" TERM;`)
		p.Terminate()
		awaitDone(t, p)
		s.settle()
		if alive(child) || p.Leftovers() {
			t.Error("closed before the killed processes were gone")
		}
	})
}

// Terminate waits for processes that end on SIGTERM, and no longer: the grace is
// for the others.
func TestTerminateWaitsForProcessesThatEnd(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		s.grace = time.Hour
		p, child := startHeavy(t, s, "")
		p.Terminate()
		awaitDone(t, p)
		if alive(child) {
			t.Error("closed before the processes that end on SIGTERM were gone")
		}
	})
}

func TestTerminateTwiceKillsAtOnce(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		s.grace = time.Hour
		p, sink := start(t, s, shell(ignoresTERM))
		awaitPids(t, sink, 1)
		p.Terminate()
		if !p.Terminate() {
			t.Error("was not running")
		}
		awaitDone(t, p)
		if sink.code != 137 {
			t.Errorf("code %d", sink.code)
		}
	})
}

// The exit is reported when the child exits, though a grandchild holds the pipe.
// Its output follows, and then the close.
func TestLateOutputFollowsExit(t *testing.T) {
	s := newSupervisor(t, Config{})
	spec := shell("{ read x <&4; echo late; } 4<&3 & exit 6")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := withDescriptor(r, func(fd int) error { return syscall.SetNonblock(fd, false) }); err != nil {
		t.Fatal(err)
	}
	spec.Files = []*os.File{r}
	p, sink := start(t, s, spec)
	r.Close()
	sink.awaitEvent("exit")
	if code, ok := p.Exited(); !ok || code != 6 {
		t.Errorf("exited %d %v", code, ok)
	}
	if _, err := w.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, p)
	if got := sink.eventOrder(); got != "exit out close" {
		t.Errorf("events: %s", got)
	}
}

func TestTerminateAfterExitKillsHolders(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		p, sink := start(t, s, shell(descendants+"exit 0"))
		pids := awaitPids(t, sink, 4)
		sink.awaitEvent("exit")
		if p.Terminate() {
			t.Error("reported as running")
		}
		awaitDone(t, p)
		awaitDeath(t, pids...)
		if sink.code != 0 {
			t.Errorf("code %d", sink.code)
		}
	})
}

// A background server without our pipes survives close and Terminate, but not Kill.
func TestBackgroundServerLivesUntilKill(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		p, sink := start(t, s, shell("sleep 1000 >/dev/null 2>&1 & echo pid=$!"))
		awaitDone(t, p)
		pids := awaitPids(t, sink, 1)
		p.Terminate()
		if !alive(pids[0]) {
			t.Error("terminate after close killed it")
		}
		s.settle()
		if !p.Leftovers() {
			t.Error("leftovers were forgotten")
		}
		p.Kill()
		awaitDeath(t, pids...)
		if p.Leftovers() {
			t.Error("leftovers after Kill")
		}
	})
}

func TestLeftoversThatEndAreForgotten(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		p, sink := start(t, s, shell("sleep 1000 >/dev/null 2>&1 & echo pid=$!"))
		awaitDone(t, p)
		pid := awaitPids(t, sink, 1)[0]
		syscall.Kill(pid, syscall.SIGKILL)
		awaitDeath(t, pid)
		p.child.tree.await(time.Now().Add(testTimeout))
		s.settle()
		if p.Leftovers() {
			t.Error("still leftovers")
		}
		if n := len(s.Processes()); n != 0 {
			t.Errorf("%d processes remembered", n)
		}
		if _, ok := readProcess(p.Pid()); ok {
			t.Error("the child is not reaped")
		}
	})
}

func TestKillWaits(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		p, sink := start(t, s, shell(descendants+"wait; sleep 1000")) // the shell does not end when the others are killed first
		pids := awaitPids(t, sink, 4)
		p.Kill()
		if !sink.closed || sink.code != 137 {
			t.Errorf("closed %v, code %d", sink.closed, sink.code)
		}
		for _, pid := range pids {
			if alive(pid) {
				t.Errorf("process %d is alive", pid)
			}
		}
		p.Kill() // harmless
	})
}

func TestSupervisorCloseKillsAll(t *testing.T) {
	for _, noCgroups := range []bool{false, true} {
		s := New(Config{NoCgroups: noCgroups})
		s.needHost()
		var pids []int
		for range 5 {
			_, sink := start(t, s, shell(descendants+"wait"))
			pids = append(pids, awaitPids(t, sink, 4)...)
		}
		left, sink := start(t, s, shell("sleep 1000 >/dev/null 2>&1 & echo pid=$!"))
		awaitDone(t, left)
		pids = append(pids, awaitPids(t, sink, 1)...)
		s.Close()
		awaitDeath(t, pids...)
	}
}

// A reader that is blocked by a full log delays neither SIGTERM nor SIGKILL nor the
// close, and the bytes that it has read are not lost.
func TestTerminateWhileTheSinkIsFull(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		sink := newRecorder(t)
		sink.cutting = true
		sink.block()
		p, err := s.Start(t.Context(), shell("printf start; sleep 0.05; trap '' TERM; printf '%s' pid=$$; exec tail -f /dev/null"), sink)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-sink.waiting:
		case <-time.After(testTimeout):
			t.Fatal("nothing was written")
		}
		pid := p.Pid()
		p.Terminate()
		awaitDeath(t, pid)
		awaitDone(t, p)
		if sink.cuts != 1 {
			t.Errorf("the sink was cut %d times", sink.cuts)
		}
		if got := sink.text(outlog.Stdout); !strings.HasPrefix(got, "start") {
			t.Errorf("output %q", got)
		}
	})
}

// If a process that no kill can find holds the pipe, the output is cut.
func TestOutputIsCutAfterTerminate(t *testing.T) {
	s := newSupervisor(t, Config{})
	p, sink := start(t, s, shell("echo kept; exec sleep 1000"))
	sink.awaitText(outlog.Stdout, "kept")
	// The test opens the write end itself: no kill finds it.
	holder, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", p.Pid()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	began := time.Now()
	p.Terminate()
	awaitDone(t, p)
	if took := time.Since(began); took < terminateGrace || took > testTimeout/2 {
		t.Errorf("closed after %v", took)
	}
	if got := sink.text(outlog.Stdout); got != "kept\n" {
		t.Errorf("output %q", got)
	}
	if _, err := holder.WriteString("x"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write after the cut: %v", err)
	}
}

func TestRefusingSinkStopsTheReader(t *testing.T) {
	s := newSupervisor(t, Config{})
	sink := newRecorder(t)
	sink.refuse = true
	p, err := s.Start(t.Context(), shell("echo x; sleep 1000"), sink)
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if got := sink.eventOrder(); got != "exit close" {
		t.Errorf("events: %s", got)
	}
}

// A terminated shell does not go on with its next command because the one before was terminated first: parents get the signal
// before their children.
func TestTerminatedShellDoesNotGoOn(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		for range 40 {
			p, sink := start(t, s, shell("sh -c 'echo ready; exec sleep 1000'; echo next; sleep 1000"))
			sink.awaitText(outlog.Stdout, "ready")
			p.Terminate()
			awaitDone(t, p)
			if got := sink.text(outlog.Stdout); got != "ready\n" || sink.code < 128 {
				t.Fatalf("it has ended with %d and printed %q", sink.code, got)
			}
		}
	})
}
