package account

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// group makes a directory with the files of a group.
func group(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The usage of a wait, before figures of groups are added.
var waited = Usage{CPU: CPU{time.Second, 2 * time.Second, Waited}, Memory: Memory{5 << 20, Largest}, IO: IO{100, 9000, Waited}}

func TestGroups(t *testing.T) {
	old := devices
	defer func() { devices = old }()
	devices = t.TempDir()
	if err := os.MkdirAll(filepath.Join(devices, "253:0", "slaves", "sda"), 0o700); err != nil { // a logical volume on a disk
		t.Fatal(err)
	}
	const cpu = "usage_usec 5000000\nuser_usec 3000000\nsystem_usec 2000000\nnr_periods 0\n"
	unified := map[string]string{
		"cpu.stat":      cpu,
		"memory.peak":   "73400320\n",
		"memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n",
		"pids.peak":     "17\n",
		"io.stat":       "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n253:0 rbytes=4096 wbytes=8192 rios=1 wios=2\n8:16 rbytes=1 wbytes=2\n",
	}
	killed := func(files map[string]string, events string) map[string]string {
		changed := map[string]string{"memory.events": events}
		for name, text := range files {
			if name != "memory.events" {
				changed[name] = text
			}
		}
		return changed
	}
	measured := Usage{CPU: CPU{3 * time.Second, 2 * time.Second, Tree}, Memory: Memory{70 << 20, Tree}, IO: IO{4097, 9000, Tree}, Processes: 17}
	with := func(change func(u *Usage)) Usage { u := measured; change(&u); return u }
	for name, test := range map[string]struct {
		groups Groups
		want   Usage
	}{
		"none":    {Groups{Fresh: true}, waited},
		"missing": {Groups{Unified: "/nonexistent", Memory: "/nonexistent", Pids: "/nonexistent", Fresh: true}, waited},
		"membership only": {Groups{Unified: group(t, map[string]string{"cpu.stat": cpu}), Fresh: true, Before: CPU{Of: Tree}},
			Usage{CPU: CPU{3 * time.Second, 2 * time.Second, Tree}, Memory: waited.Memory, IO: waited.IO}},
		"used before": {Groups{Unified: group(t, unified), Before: CPU{time.Second, time.Second / 2, Tree}}, // peaks may be those of others
			Usage{CPU: CPU{2 * time.Second, 1500 * time.Millisecond, Tree}, Memory: waited.Memory, IO: waited.IO}},
		"used before, unknown how much": {Groups{Unified: group(t, unified), Before: CPU{System: time.Second}}, waited},
		"own limit": {Groups{Unified: group(t, unified), Fresh: true, Before: CPU{Of: Tree}, MemoryLimit: 64 << 20},
			with(func(u *Usage) { u.Kill = Kill{3, OwnLimit, 64 << 20} })},
		"limit above": {Groups{Unified: group(t, killed(unified, "oom 0\noom_kill 2\n")), Fresh: true, Before: CPU{Of: Tree}, MemoryLimit: 64 << 20},
			with(func(u *Usage) { u.Kill = Kill{Processes: 2} })},
		"limit of all": {Groups{Unified: group(t, killed(unified, "oom 0\noom_kill 2\n")), Fresh: true, Before: CPU{Of: Tree}, MemoryLimit: 64 << 20,
			All: group(t, map[string]string{"memory.events": "oom 7\n", "memory.events.local": "oom 1\n"}), TotalMemory: 1 << 30},
			with(func(u *Usage) { u.Kill = Kill{2, TotalLimit, 1 << 30} })},
		"limit of all, not reached": {Groups{Unified: group(t, killed(unified, "oom 0\noom_kill 2\n")), Fresh: true, Before: CPU{Of: Tree},
			All: group(t, map[string]string{"memory.events": "oom 7\n", "memory.events.local": "oom 0\n"}), TotalMemory: 1 << 30},
			with(func(u *Usage) { u.Kill = Kill{Processes: 2} })},
		"limit of all, version 1": {Groups{Memory: group(t, map[string]string{"memory.max_usage_in_bytes": "73400320\n", "memory.oom_control": "oom_kill 1\n"}),
			All: group(t, map[string]string{"memory.max_usage_in_bytes": "1073741824\n"}), TotalMemory: 1 << 30},
			Usage{CPU: waited.CPU, Memory: Memory{70 << 20, Tree}, IO: waited.IO, Kill: Kill{1, TotalLimit, 1 << 30}}},
		"limit reached, nothing killed": {Groups{Unified: group(t, killed(unified, "oom 2\noom_kill 0\n")), Fresh: true, Before: CPU{Of: Tree}, MemoryLimit: 64 << 20}, measured},
		"garbage": {Groups{Unified: group(t, map[string]string{"cpu.stat": "user_usec x\nsystem_usec -1", "memory.peak": "", "memory.events": "oom_kill",
			"pids.peak": "max\n", "io.stat": "\n= \n8:0 rbytes wbytes=z"}), Fresh: true, Before: CPU{Of: Tree}},
			Usage{CPU: waited.CPU, Memory: waited.Memory, IO: IO{100, 9000, Tree}}},
		"version 1": {Groups{MemoryLimit: 1 << 20, Unified: group(t, unified), Before: CPU{System: time.Second}, // which others have used before
			Memory: group(t, map[string]string{"memory.max_usage_in_bytes": "73400320\n", "memory.failcnt": "8\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"}),
			Pids:   group(t, map[string]string{"pids.peak": "17\n"})},
			with(func(u *Usage) { u.CPU, u.IO, u.Kill = waited.CPU, waited.IO, Kill{1, OwnLimit, 1 << 20} })},
	} {
		t.Run(name, func(t *testing.T) {
			got := waited
			test.groups.Add(&got)
			if got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// Memory that a process shared with the program that made it does not count as its own.
func TestInheritedMemory(t *testing.T) {
	for _, test := range []struct {
		largest, inherited uint64
		want               Memory
	}{
		{0, 0, Memory{}},
		{9 << 20, 0, Memory{9 << 20, Bound}},
		{9 << 20, 30 << 20, Memory{9 << 20, Bound}},
		{31 << 20, 30 << 20, Memory{31 << 20, Bound}},
		{33 << 20, 30 << 20, Memory{33 << 20, Largest}},
	} {
		f := Figures{Largest: test.largest}
		if got := f.UsageOf(test.inherited).Memory; got != test.want {
			t.Errorf("%d of %d: %+v", test.largest, test.inherited, got)
		}
	}
}
