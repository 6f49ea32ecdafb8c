//go:build amd64 || arm64

package fork

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const ownScore = "/proc/self/oom_score_adj"

// The child writes to the files, and this program stays as it is: a child that shares this program's memory
// would otherwise change the score of both.
func TestWritesOfTheChild(t *testing.T) {
	before, err := os.ReadFile(ownScore)
	if err != nil {
		t.Fatal(err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(before)))
	if err != nil || score > 900 {
		t.Skipf("this program has the score %s already", before)
	}
	inAllModes(t, func(t *testing.T, s *Starter) {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		raised := strconv.Itoa(score + 7)
		own := newStation(t)
		own.Writes = []Write{
			{Path: "/none/at all", Text: "x", Step: StepGroup, Optional: true},
			{Path: name, Text: "0", Step: StepGroup},
			{Path: ownScore, Text: raised, Step: StepScore},
		}
		child, err := s.Start(own.Command)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", child.Pid))
		if err != nil || strings.TrimSpace(string(got)) != raised {
			t.Errorf("the child has the score %q, %v, want %s", got, err, raised)
		}
		own.in.Close()
		reap(t, child)
		if text, _ := os.ReadFile(name); string(text) != "0" {
			t.Errorf("the file has %q", text)
		}
		if now, _ := os.ReadFile(ownScore); string(now) != string(before) {
			t.Errorf("this program has the score %q, before %q", now, before)
		}
	})
}

// A file that cannot be written fails the start, with its step, unless it is optional.
func TestFailedWrite(t *testing.T) {
	inAllModes(t, func(t *testing.T, s *Starter) {
		own := newStation(t)
		own.Writes = []Write{{Path: "/none/at all", Text: "0", Step: StepGroup}}
		if failed, ok := errors.AsType[*Error](start(s, own.Command)); !ok || *failed != (Error{StepGroup, unix.ENOENT}) {
			t.Errorf("failed with %v", failed)
		}
	})
}

// The limits of a command are its soft and its hard limits.
func TestLimitsOfACommand(t *testing.T) {
	inAllModes(t, func(t *testing.T, s *Starter) {
		own := newStation(t)
		own.Limits = []Rlimit{{unix.RLIMIT_NOFILE, 77}, {unix.RLIMIT_FSIZE, 12345}}
		child, err := s.Start(own.Command)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range own.Limits {
			var got unix.Rlimit
			if err := unix.Prlimit(child.Pid, want.Resource, nil, &got); err != nil || got.Cur != want.Limit || got.Max != want.Limit {
				t.Errorf("limit %d is %v, %v, want %d", want.Resource, got, err, want.Limit)
			}
		}
		own.in.Close()
		reap(t, child)
	})
}

// Where a program is started by the standard library, limits are refused.
func TestLimitsWithoutCalls(t *testing.T) {
	own := newStation(t)
	own.Limits = []Rlimit{{unix.RLIMIT_NOFILE, 77}}
	if failed, ok := errors.AsType[*Error](failure(forkExec(own.Command))); !ok || failed.Step != StepLimit {
		t.Errorf("failed with %v", failed)
	}
	own.Limits, own.Writes = nil, []Write{{Path: ownScore, Text: "7", Step: StepScore}}
	if failed, ok := errors.AsType[*Error](failure(forkExec(own.Command))); !ok || failed.Step != StepScore {
		t.Errorf("failed with %v", failed)
	}
}

func failure(_ Child, err error) error { return err }

// BenchmarkStartInGroups starts /bin/true without groups and in groups of the controllers of version 1 in turn. It
// needs the right to make them.
func BenchmarkStartInGroups(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	fd := descriptor(null)
	plain := &Command{Path: "/bin/true", Argv: []string{"true"}, Dir: -1, Cgroup: -1, DeathSignal: unix.SIGTERM, Files: []int{fd, fd, fd}}
	scored, grouped := *plain, *plain
	scored.Writes = []Write{{Path: ownScore, Text: "500", Step: StepScore}}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		dir := fmt.Sprintf("/sys/fs/cgroup/%s/fork-bench-%d", controller, os.Getpid())
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Skip(err)
		}
		defer os.Remove(dir)
		grouped.Writes = append(grouped.Writes, Write{Path: dir + "/tasks", Text: "0", Step: StepGroup})
	}
	s := newStarter(b)
	none, score, groups := &samples{start: s.Start}, &samples{start: s.Start}, &samples{start: s.Start}
	for b.Loop() {
		none.take(b, plain)
		score.take(b, &scored)
		groups.take(b, &grouped)
	}
	none.report(b, "plain")
	score.report(b, "score")
	groups.report(b, "groups")
}
