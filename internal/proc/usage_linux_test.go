package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/outlog"
)

// spin uses some CPU time.
const spin = `i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done`

// leastSpin is less than what spin uses.
const leastSpin = 20 * time.Millisecond

// usageOf runs a script to its end and returns what it has used.
func usageOf(t *testing.T, s *Supervisor, script string) account.Usage {
	t.Helper()
	p, _ := start(t, s, shell(script))
	if _, ok := p.Usage(); ok {
		if _, exited := p.Exited(); !exited {
			t.Error("the usage is known before the exit")
		}
	}
	awaitDone(t, p)
	u, ok := p.Usage()
	if !ok || u.Wall <= 0 || u.Wall > testTimeout {
		t.Fatalf("%+v, %v", u, ok)
	}
	return u
}

// A command that has ended has an account of what it and its descendants used.
func TestUsage(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		file := filepath.Join(t.TempDir(), "file")
		const memory, written = 100_000_000, 3 << 20
		u := usageOf(t, s, fmt.Sprintf(`%s; dd if=/dev/zero of=/dev/null bs=%d count=1 2>/dev/null; head -c %d /dev/zero >%s`, spin, memory, written, file))
		scope := account.Waited
		if s.host.cgroups != nil {
			scope = account.Tree
		}
		if used := u.CPU.User + u.CPU.System; u.CPU.Of != scope || u.CPU.User < leastSpin || used > time.Minute {
			t.Errorf("CPU %+v", u.CPU)
		}
		exact := account.OwnMemory() < memory // other tests may have used more
		if exact && u.Memory.Of != account.Largest || u.Memory.Bytes < memory || u.Memory.Bytes > 20*memory {
			t.Errorf("memory %+v", u.Memory)
		}
		if u.IO.Of != account.Waited || u.IO.Written > 100*written {
			t.Errorf("IO %+v", u.IO)
		}
		if onDisk(t, file) && u.IO.Written < written {
			t.Errorf("IO %+v", u.IO)
		}
		if u.Kill != (account.Kill{}) || u.Blocked != 0 {
			t.Errorf("%+v", u)
		}
		small := usageOf(t, s, "exec true")
		if small.CPU.Of != scope || small.CPU.User+small.CPU.System >= u.CPU.User+u.CPU.System {
			t.Errorf("CPU of a small command %+v", small.CPU)
		}
		if small.Memory.Of != account.Bound || small.Memory.Bytes > account.OwnMemory()+4<<20 {
			t.Errorf("memory of a small command %+v", small.Memory)
		}
	})
}

// onDisk reports whether a file is in a file system whose writes count.
func onDisk(t *testing.T, file string) bool {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(file, &fs); err != nil {
		t.Fatal(err)
	}
	return fs.Type == unix.EXT4_SUPER_MAGIC || fs.Type == unix.XFS_SUPER_MAGIC || fs.Type == unix.BTRFS_SUPER_MAGIC
}

// A process that its parent did not wait for counts in a cgroup, and only there.
func TestUsageOfAbandonedProcesses(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		gate := filepath.Join(t.TempDir(), "gate")
		if err := unix.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		u := usageOf(t, s, fmt.Sprintf(`(setsid sh -c '%s; echo >%s' >/dev/null 2>&1 &); read x <%s`, spin, gate, gate))
		switch used := u.CPU.User + u.CPU.System; {
		case s.host.cgroups != nil && (u.CPU.Of != account.Tree || used < leastSpin):
			t.Errorf("in a cgroup: %+v", u.CPU)
		case s.host.cgroups == nil && u.CPU.Of != account.Waited:
			t.Errorf("without a cgroup: %+v", u.CPU)
		}
	})
}

// Commands without limits have the same figures, whether a command was in their cgroup before or not: peaks would be those of both.
func TestFiguresWithoutLimits(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, Config{})
	for range 2 {
		p, _ := start(t, s, shell("true"))
		awaitDone(t, p)
		p.mu.Lock()
		group := cgroupOf(p.child.tree)
		p.mu.Unlock()
		if group == nil {
			t.Skip("no writable cgroup file system of version 2 here")
		}
		if group.accounts().Fresh {
			t.Error("peaks and events are read")
		}
	}
}

// The account of a process with a slot is recorded, and an adopting program finds it. A slot of a program that did not
// know of accounts has none.
func TestUsageIsRecorded(t *testing.T) {
	keeper := &testKeeper{}
	sup := newSupervisor(t, Config{Keeper: keeper})
	slot := newSlot(t)
	log := outlog.New(outlog.NewPool(t.TempDir(), 1<<20), outlog.Config{Slot: slot})
	p, err := sup.Start(t.Context(), Spec{Argv: []string{"sh", "-c", spin}, Dir: "/", Env: os.Environ(), Slot: slot}, log)
	if err != nil {
		t.Fatal(err)
	}
	awaitDone(t, p)
	u, ok := p.Usage()
	if !ok || u.CPU.User < leastSpin || u.Memory.Bytes == 0 {
		t.Errorf("%+v, %v", u, ok)
	}
	k := &kept{keeper, slot}
	if recorded, ok := k.usage(); !ok || recorded != u {
		t.Errorf("recorded %+v, %v\nmeasured %+v", recorded, ok, u)
	}
	all := account.Usage{Wall: 1, Blocked: 2, CPU: account.CPU{User: 3, System: 4, Of: account.Tree}, Memory: account.Memory{Bytes: 5, Of: account.Bound},
		IO: account.IO{Read: 6, Written: 7, Of: account.Waited}, Processes: 8, Kill: account.Kill{Processes: 9, Cause: account.TotalLimit, Limit: 10}}
	slot.Usage.Ended.Store(0, pointUsed)
	k.used(usage{all, true})
	if recorded, ok := k.usage(); !ok || recorded != all {
		t.Errorf("recorded %+v, %v", recorded, ok)
	}
	k.used(usage{account.Usage{}, true}) // an account is recorded once
	if recorded, _ := k.usage(); recorded != all {
		t.Errorf("recorded %+v again", recorded)
	}

	slot.Serial.Store(slot.Serial.Load()+1, pointDetail) // as if another program had taken the slot
	if recorded, ok := k.usage(); ok || k.inherited() != 0 {
		t.Errorf("of another process: %+v", recorded)
	}
	slot.CgroupCPU.Store(uint64(time.Second), pointDetail)
	if before, fresh := cgroupBefore(slot); before != (account.CPU{System: time.Second}) || fresh {
		t.Errorf("%+v, %v", before, fresh)
	}
	log.End()
	p.Release(func() {})
	keeper.Free(0)
}

// A child of the keeper, and one whose exit another program has recorded, have an account as well.
func TestUsageOfAdoptedProcess(t *testing.T) {
	keeper := &testKeeper{}
	sup := newSupervisor(t, Config{Keeper: keeper})
	for name, recorded := range map[string]bool{"ended while there was no program": false, "exit was recorded": true} {
		t.Run(name, func(t *testing.T) {
			slot := newSlot(t)
			group, fd, err := sup.needHost().cgroups.take(&Enforced{})
			if err != nil {
				t.Skip(err)
			}
			defer unix.Close(fd)
			c := &child{kept: &kept{keeper, slot}, inherited: account.OwnMemory()}
			slot.Cgroup.Store(uint64(group.number), pointDetail)
			c.kept.begins(c.inherited, group.accounts())
			pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", spin + "; exit 3"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			slot.Pid.Store(uint32(pid), pointCloned)
			slot.State.Store(slotStarting, pointStarting)
			c.kept.running()
			want := account.Usage{Wall: time.Hour, CPU: account.CPU{User: time.Minute, Of: account.Tree}}
			if recorded {
				c.kept.used(usage{want, true})
				c.kept.exited(3)
			}
			sink := newRecorder(t)
			output, end, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			end.Close()
			p, err := sup.Adopt(t.Context(), Adoption{Spec: Spec{Slot: slot}, Files: map[Which]*os.File{HeldStdout: output}, Sink: sink})
			if err != nil {
				t.Fatal(err)
			}
			awaitDone(t, p)
			u, ok := p.Usage()
			switch {
			case !ok || sink.code != 3:
				t.Errorf("code %d, %+v", sink.code, u)
			case recorded && u != want:
				t.Errorf("%+v", u)
			case !recorded && (u.Wall <= 0 || u.IO.Of != account.Waited || u.Memory.Of == account.Unknown):
				t.Errorf("%+v", u)
			}
			p.Kill()
		})
	}
	keeper.Free(0)
}

// What an account adds to a start and to an exit, apart from the resource usage that the kernel returns with the exit.
func BenchmarkAccount(b *testing.B) {
	s := New(Config{})
	defer s.Close()
	p, err := s.Start(b.Context(), shell("exec sleep 1000"), new(Capture))
	if err != nil {
		b.Fatal(err)
	}
	if s.host.cgroups == nil {
		b.Skip("no writable cgroup file system of version 2 here")
	}
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			account.OwnMemory()
		}
	})
	for name, fresh := range map[string]bool{"exit, group of earlier commands": false, "exit, group of its own": true} {
		b.Run(name, func(b *testing.B) {
			p.child.tree.(*cgroup).once = fresh
			end := ending{used: &account.Figures{Largest: 1 << 30}}
			for b.Loop() {
				p.measure(end)
			}
		})
	}
}
