package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// needLimits skips a test on a machine that does not limit memory, processors and processes.
func needLimits(t *testing.T) {
	t.Helper()
	s := proc.New(proc.Config{})
	defer s.Close()
	support, err := s.LimitSupport()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []proc.Limit{proc.LimitMemory, proc.LimitCPUs, proc.LimitProcesses} {
		if support.Missing[l] != nil {
			t.Skip(support.Missing[l])
		}
	}
}

// groupsOf returns the control groups of all controllers in which commands of a server are.
func groupsOf(server int) (left []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/*/tether-%d-*", "/sys/fs/cgroup/*/*/tether-%d-*", "/sys/fs/cgroup/*/*/*/tether-%d-*"} {
		found, _ := filepath.Glob(fmt.Sprintf(pattern, server))
		left = append(left, found...)
	}
	return left
}

// stopped ends a server and checks that it leaves no control group.
func stopped(t *testing.T, s *keptServer) {
	t.Helper()
	s.stop(t)
	if left := groupsOf(s.Process.Pid); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
}

func someLimits(limit time.Duration) *wire.Limits {
	memory, processes, cpus, ms := uint64(64<<20), uint64(30), wire.Amount(0.5), uint64(limit.Milliseconds())
	return &wire.Limits{MemoryBytes: &memory, Processes: &processes, CPUs: &cpus, TimeMs: &ms}
}

// Wherever a worker dies, the limits of a command stay in force, its time goes on, and nothing is left at the end.
func TestLimitsSurviveWorkers(t *testing.T) {
	t.Parallel()
	needLimits(t)
	points := []string{"proc.starting:1", "proc.cloned:1", "proc.running:1", "proc.ending:1", "proc.reaped:1", "arena.slot.free:1"}
	for n := 1; n <= tethertest.Scaled(12, 18); n += tethertest.Scaled(4, 1) {
		points = append(points, fmt.Sprintf("proc.detail:%d", n))
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := startKept(t, crash.Variable+"="+point, crash.WorkerVariable+"=1")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := dialKept(t, s.url)
			const limit = time.Second
			begun := time.Now()
			p, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", "echo ready; exec sleep 1000"}, Limits: someLimits(limit)})
			if err != nil {
				t.Fatal(err)
			}
			in := p.Limits()
			if in == nil || in.MemoryBytes == nil || in.MemoryBytes.Limit != 64<<20 || in.CPUs.Limit != 0.5 || in.Processes.By == wire.ByNothing || in.TimeMs.By != wire.ByTimer {
				t.Errorf("in force: %+v", in)
			}
			var out bytes.Buffer
			exit, err := p.CopyOutput(ctx, &out, io.Discard)
			if err != nil || exit.Limit != wire.LimitTimeMs || exit.Code < 128 || out.String() != "ready\n" {
				t.Errorf("%+v, %v, output %q", exit, err, &out)
			}
			if took := time.Since(begun); took < limit {
				t.Errorf("it was ended after %v", took)
			}
			stopped(t, s)
		})
	}
}

// A worker that takes over a command finds its groups: they are not removed, and go on to limit it.
func TestLimitsAfterTakeover(t *testing.T) {
	t.Parallel()
	needLimits(t)
	s := startKept(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := dialKept(t, s.url)
	script := "cat /proc/self/cgroup; read x; cat /proc/self/cgroup; head -c 100M /dev/zero | tail >/dev/null; echo $?"
	p, err := c.Start(ctx, client.Command{Argv: []string{"bash", "-c", "set -o pipefail; " + script}, Stdin: true, Limits: someLimits(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s.killWorker(t)
	if err := p.Write(ctx, []byte("go\n")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if exit, err := p.CopyOutput(ctx, &out, io.Discard); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	text, killed := strings.CutSuffix(out.String(), "137\n")
	if half := len(text) / 2; !killed || len(text) == 0 || text[:half] != text[half:] {
		t.Errorf("output %q", &out)
	}
	stopped(t, s)
}

// A server grants no more than its limits, and gives them to each command that asks for none.
func TestServerLimits(t *testing.T) {
	t.Parallel()
	needLimits(t)
	s := startKeeper(t, nil, "--limit-memory", "64M", "--limit-pids", "40", "--limit-cpus", "1", "--limit-files", "100", "--limit-time", "1h",
		"--limit-total-memory", "1G", "--limit-total-pids", "200", "--limit-total-cpus", "1.5")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := dialKept(t, s.url)
	run := func(limits *wire.Limits) (*client.Process, error) {
		return c.Start(ctx, client.Command{Argv: []string{"true"}, Limits: limits})
	}
	p, err := run(nil)
	if err != nil {
		t.Fatal(err)
	}
	if in := p.Limits(); in == nil || in.MemoryBytes.Limit != 64<<20 || in.Processes.Limit != 40 || in.CPUs.Limit != 1 || in.OpenFiles.Limit != 100 || in.TimeMs.Limit != 3600_000 || in.DiskBytes != nil {
		t.Errorf("in force: %+v", in)
	}
	less, more, yes := uint64(32<<20), uint64(65<<20), true
	if p, err = run(&wire.Limits{MemoryBytes: &less}); err != nil || p.Limits().MemoryBytes.Limit != 32<<20 || p.Limits().Processes.Limit != 40 {
		t.Errorf("less: %v", err)
	}
	if _, err = run(&wire.Limits{MemoryBytes: &more}); err == nil || !strings.Contains(err.Error(), "more than this server grants") {
		t.Errorf("more: %v", err)
	}
	if p, err = run(&wire.Limits{MemoryBytes: &more, BestEffort: &yes}); err != nil || p.Limits().MemoryBytes.Limit != 64<<20 {
		t.Errorf("more, as a best effort: %v", err)
	}
	s2 := startKeeper(t, nil, "--limit-total-memory", "256M", "--limit-total-pids", "60", "--limit-total-cpus", "1")
	c = dialKept(t, s2.url)
	memory, processes, cpus := uint64(300<<20), uint64(61), wire.Amount(1.5)
	for name, limits := range map[string]wire.Limits{"memoryBytes": {MemoryBytes: &memory}, "processes": {Processes: &processes}, "cpus": {CPUs: &cpus}} {
		if _, err = run(&limits); err == nil || !strings.Contains(err.Error(), "`"+name+"`") || !strings.Contains(err.Error(), "more than all commands of this server together get") {
			t.Errorf("%s above the total: %v", name, err)
		}
	}
	p, err = run(&wire.Limits{MemoryBytes: &memory, Processes: &processes, CPUs: &cpus, BestEffort: &yes})
	if err != nil {
		t.Fatal(err)
	}
	if in := p.Limits(); in.MemoryBytes.Limit != 256<<20 || in.Processes.Limit != 60 || in.CPUs.Limit != 1 {
		t.Errorf("above the total, as a best effort: %+v", in)
	}
	stopped(t, s2)
	stopped(t, s)
}

// A server whose limits cannot be enforced does not start, and says why before it listens.
func TestServerLimitsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		flag, value, want string
		more              []string
	}{
		{"--limit-cpus", "1.5", "more than all commands together get: 1", []string{"--limit-total-cpus", "1"}},
		{"--limit-memory", "128M", "more than all commands together get: 67108864", []string{"--limit-total-memory", "64M"}},
		{"--limit-memory", "100T", "more than this machine has", nil},
		{"--limit-cpus", "4000", "more than this machine has", nil},
		{"--limit-total-pids", "3", "less than a command in a sandbox needs", nil},
		{"--limit-cpus", "NaN", "expected a number of processors", nil},
		{"--limit-cpus", "-1", "expected a number of processors", nil},
		{"--limit-memory", "0", "must be at least 1 byte", nil},
		{"--limit-time", "0s", "expected a duration", nil},
	} {
		for _, keeper := range []string{"--keeper", "--no-keeper"} {
			p := startTether(t, append([]string{"serve", keeper, row.flag, row.value}, row.more...)...)
			out, _ := io.ReadAll(p.stdout)
			p.Wait()
			if p.ProcessState.ExitCode() == 0 || !strings.Contains(p.stderr.String(), row.want) {
				t.Errorf("%s %s %s: %v, %s", keeper, row.flag, row.value, p.ProcessState, p.stderr)
			}
			if len(out) > 0 || strings.Contains(p.stderr.String(), "worker") {
				t.Errorf("%s %s %s: it has begun to serve: %q, %s", keeper, row.flag, row.value, out, p.stderr)
			}
		}
	}
}

// The flags of `tether run` reach the server, in a sandbox too, and its errors say what to do.
func TestRunWithLimits(t *testing.T) {
	t.Parallel()
	needLimits(t)
	run := func(args ...string) (stdout, stderr string, code int) {
		p := startTether(t, append([]string{"run"}, args...)...)
		p.stdin.Close()
		out, _ := io.ReadAll(p.stdout)
		p.Wait()
		if left := groupsOf(p.Process.Pid); len(left) > 0 {
			t.Errorf("%q: control groups are left: %v", args, left)
		}
		return string(out), p.stderr.String(), p.ProcessState.ExitCode()
	}
	if out, text, code := run("--files", "77", "--pids", "50", "--", "sh", "-c", "ulimit -n"); out != "77\n" || code != 0 {
		t.Errorf("%q, %q, %d", out, text, code)
	}
	if _, text, code := run("--time", "200ms", "--", "sleep", "1000"); code != exitTimeout || !strings.Contains(text, "time limit of 200ms was reached") {
		t.Errorf("%q, %d", text, code)
	}
	if _, text, code := run("--disk", "1M", "--", "true"); code != exitRefused || !strings.Contains(text, "--best-effort") {
		t.Errorf("%q, %d", text, code)
	}
	if _, text, code := run("--disk", "1K", "--best-effort", "--cwd", t.TempDir(), "--", "sh", "-c", "exec head -c 2K /dev/zero >file"); code != 128+25 ||
		!strings.Contains(text, "tether: the limit of disk space, 1 KiB, holds for the size of each file") {
		t.Errorf("%q, %d", text, code)
	}
	if _, text, code := run("--pids", "50", "--files", "100", "--best-effort", "--", "true"); code != 0 || text != "" {
		t.Errorf("%q, %d", text, code)
	}
	tethertest.NeedBubblewrap(t)
	out, text, code := run("--sandbox", "workspace-write", "--cwd", t.TempDir(), "--memory", "64M", "--pids", "40", "--files", "99", "--cpus", "1", "--",
		"bash", "-c", "ulimit -n; set -o pipefail; head -c 200M /dev/zero | tail >/dev/null; echo $?")
	if !strings.HasPrefix(out, "99\n137\n") || code != 0 {
		t.Errorf("%q, %q, %d", out, text, code)
	}
}
