package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// `tether run --stats` prints what a command has used, on standard error, whatever its exit code is.
func TestStats(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	got := b.tether(nil, "run", "--stats", "--", "sh", "-c", "dd if=/dev/zero of=/dev/null bs=200000000 count=1 2>/dev/null; echo out; exit 3")
	if got.code != 3 || got.stdout != "out\n" {
		t.Errorf("%+v", got)
	}
	// The test program itself may have more memory than the command, which then is only a bound.
	for _, want := range []string{`time +[0-9.]+s`, `CPU +[0-9.]+s user, `, "memory +[0-9]+MiB (or less )?in the largest process", "disk +0B"} {
		if !regexp.MustCompile("(?m)^" + want).MatchString(got.stderr) {
			t.Errorf("standard error has no %q:\n%s", want, got.stderr)
		}
	}
	if got := b.tether(nil, "run", "--", "true"); got.stderr != "" {
		t.Errorf("without --stats: %q", got.stderr)
	}
	if got := b.tether(nil, "run", "--stats", "-d", "--", "true"); got.code != exitRefused || !strings.Contains(got.stderr, "--detach") {
		t.Errorf("with --detach: %+v", got)
	}
}

// The table of an account has the figures that are known, and says what they do not cover.
func TestStatRows(t *testing.T) {
	n := func(n uint64) *uint64 { return &n }
	for name, test := range map[string]struct {
		usage *wire.Usage
		want  string
	}{
		"none":         {nil, "the server has no account of this command\n"},
		"little known": {&wire.Usage{WallUs: 1500}, "time       0.002s\n"},
		"all": {&wire.Usage{WallUs: 41e6, BlockedUs: 2.5e6, UserUs: n(72e6), SystemUs: n(8.31e6), CPUOf: wire.OfTree, MemoryPeakBytes: n(64 << 20), MemoryOf: wire.OfTree,
			ReadBytes: n(0), WrittenBytes: n(2048), IOOf: wire.OfWaited, Processes: n(9), MemoryKill: &wire.MemoryKill{Processes: 1, Limit: wire.LimitCommand, Bytes: n(64 << 20)}},
			`time       41s, 2.500s of it blocked because its output was not read
CPU        1m12s user, 8.310s system
memory     64MiB at most, all processes together
disk       0B read, 2.0KiB written
processes  at most 9 at the same time
killed     1 process, by the memory limit of 64 MiB
not counted in disk: processes whose parent did not wait for them
`},
		"a bound": {&wire.Usage{WallUs: 1e6, MemoryPeakBytes: n(13 << 20), MemoryOf: wire.OfBound},
			"time       1.000s\nmemory     13MiB or less in the largest process\nnot counted in memory: processes whose parent did not wait for them\n"},
		"killed by the machine": {&wire.Usage{WallUs: 1e6, MemoryKill: &wire.MemoryKill{Processes: 2, Limit: wire.LimitOuter}},
			"time       1.000s\nkilled     2 processes: out of memory (a limit above the server, or the machine)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if printStats(&out, test.usage); out.String() != test.want {
				t.Errorf("got\n%swant\n%s", out.String(), test.want)
			}
		})
	}
}

// The list shows the account of a process that has ended, and names the processes that a kill has left.
func TestEndedProcessesInTheList(t *testing.T) {
	n := func(n uint64) *uint64 { return &n }
	code := 137
	ended := wire.ProcessInfo{ProcessID: "p", State: wire.StateClosed, ExitCode: &code, Argv: []string{"make"},
		TetherUsage: &wire.Usage{UserUs: n(4e6), SystemUs: n(1e6), MemoryPeakBytes: n(13 << 20), MemoryOf: wire.OfBound, MemoryKill: &wire.MemoryKill{Processes: 1, Limit: wire.LimitOuter}},
		Survivors:   []wire.Survivor{{PID: 7, State: "D", Command: "dd", Reason: "it waits"}}}
	var out bytes.Buffer
	if err := printProcesses(&out, onHost("", []wire.ProcessInfo{ended}), false, time.Now(), 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"exited 137, out of memory", "5.0s", "<13MiB"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	lines := survivorLines(wire.ListResult{Processes: []wire.ProcessInfo{ended}, Survivors: []wire.Survivor{{PID: 8, Command: "x\x1b[2J", Reason: "it waits"}}})
	if len(lines) != 2 || lines[0] != "still there after a kill, of p: process 7 (dd): it waits" || strings.Contains(lines[1], "\x1b") {
		t.Errorf("%q", lines)
	}
}

// Commands that end while there is no worker have an account, and it survives further workers.
func TestAccountsSurviveTheWorker(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	s := startKept(t)
	c := dialKept(t, s.url)
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	script := fmt.Sprintf("until [ -e %s ]; do sleep 0.02; done; dd if=/dev/zero of=/dev/null bs=200000000 count=1 2>/dev/null; exit 4", gate)
	commands := map[string]client.Command{
		"plain":   {Argv: []string{"sh", "-c", script}},
		"sandbox": {Argv: []string{"sh", "-c", script}, Dir: dir, Sandbox: workspaceWrite(t, dir)},
	}
	started := map[string]*client.Process{}
	for name, command := range commands {
		p, err := c.Start(t.Context(), command)
		if err != nil {
			t.Fatal(err)
		}
		started[name] = p
	}
	list, err := c.Processes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	worker := s.awaitWorker(t, 0)
	s.Process.Signal(syscall.SIGSTOP) // no other worker yet
	syscall.Kill(worker, syscall.SIGKILL)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		tethertest.Eventually(t, func() error {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID)); err != nil || !bytes.Contains(stat, []byte(") Z ")) {
				return errors.New("the command has not ended: " + string(stat))
			}
			return nil
		})
	}
	s.Process.Signal(syscall.SIGCONT)
	s.awaitWorker(t, worker)
	for name, p := range started {
		exit, err := p.Wait(t.Context())
		if err != nil || exit.Code != 4 {
			t.Errorf("%s: %+v, %v", name, exit, err)
		}
		if u := exit.Usage; u == nil || u.CPU() == 0 || u.MemoryPeakBytes == nil || *u.MemoryPeakBytes < 200_000_000 || u.MemoryOf != wire.OfLargest || u.ReadBytes == nil {
			t.Errorf("%s: %+v", name, u)
		}
	}
	s.killWorker(t)
	tethertest.Eventually(t, func() error { // the next worker serves
		list, err := dialKept(t, s.url).Processes(t.Context(), "")
		if err != nil {
			return err
		}
		for _, p := range list {
			if u := p.TetherUsage; u == nil || u.MemoryPeakBytes == nil || *u.MemoryPeakBytes < 200_000_000 {
				return fmt.Errorf("%s: %+v", p.ProcessID, u)
			}
		}
		if len(list) != len(started) {
			return fmt.Errorf("%d processes", len(list))
		}
		return nil
	})
	if err := c.End(t.Context()); err != nil {
		t.Error(err)
	}
	s.stop(t)
}
