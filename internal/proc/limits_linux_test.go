package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/outlog"
)

// limited returns a command with limits.
func limited(script string, limits map[Limit]uint64) Spec {
	spec := shell(script)
	for l, value := range limits {
		spec.Limits[l] = value
	}
	return spec
}

// needGroups skips a test where control groups do not enforce a limit.
func needGroups(t *testing.T, s *Supervisor, limits ...Limit) {
	t.Helper()
	support, err := s.LimitSupport()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range limits {
		if by := support.By[l]; by != ByCgroup1 && by != ByCgroup2 {
			t.Skipf("this machine does not limit %s by control groups: %v", l, support.Missing[l])
		}
	}
}

// leftGroups returns the cgroups of a supervisor that exist, except for those of version 2, which are kept for reuse.
func leftGroups(s *Supervisor) (left []string) {
	for i := range s.host.limiter.v1 {
		if path := s.host.limiter.v1[i].parent.path; path != "" {
			found, _ := filepath.Glob(path + "/[0-9]*")
			for _, dir := range found {
				if spare := s.host.limiter.spareNumber(); filepath.Base(dir) != strconv.Itoa(spare) {
					left = append(left, dir)
				}
			}
		}
	}
	return left
}

// spareNumber returns the number of the cgroups for the next process, when they are made.
func (l *limiter) spareNumber() int {
	for {
		l.mu.Lock()
		spare, prepares := l.spare, l.prepares
		l.mu.Unlock()
		switch {
		case prepares:
			time.Sleep(time.Millisecond)
		case spare != nil:
			return spare.number
		default:
			return 0
		}
	}
}

// awaitSettled waits until nothing is left of the processes of a supervisor.
func awaitSettled(t *testing.T, s *Supervisor, p *Process) {
	t.Helper()
	awaitNoLeftovers(t, p)
	if left := leftGroups(s); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
}

// awaitNoLeftovers waits until nothing is left of a process.
func awaitNoLeftovers(t *testing.T, p *Process) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); p.Leftovers(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process is not settled")
		}
	}
}

// A command that takes more memory than its limit is killed; one that takes less is not.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, Config{})
	needGroups(t, s, LimitMemory)
	for script, want := range map[string]int{
		"head -c 80M /dev/zero | tail":           137,
		"head -c 1M /dev/zero | tail >/dev/null": 0,
	} {
		p, sink := start(t, s, limited("set -e; "+script+" >/dev/null; exit $?", map[Limit]uint64{LimitMemory: 40 << 20}))
		if groups := groupsOf(p); groups.V2 == "" && groups.V1["memory"] == "" {
			t.Errorf("%s: no cgroup in %+v", script, groups)
		}
		awaitDone(t, p)
		if sink.code != want {
			t.Errorf("%s: exit code %d, want %d", script, sink.code, want)
		}
		used, _ := p.Usage()
		if killed := used.Kill.Cause == account.OwnLimit && used.Kill.Limit == 40<<20; killed != (want != 0) || used.Memory.Of != account.Tree || used.Memory.Bytes > 40<<20 {
			t.Errorf("%s: the account is %+v", script, used)
		}
		awaitSettled(t, s, p)
	}
}

// A command cannot start more processes than its limit, and other commands can.
func TestProcessLimit(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, Config{})
	needGroups(t, s, LimitProcesses)
	bomb := "bomb() { bomb & bomb & wait; }; (bomb) 2>/dev/null; exec sleep 1000" // a shell that cannot fork ends, and with the command its groups would
	p, _ := start(t, s, limited(bomb, map[Limit]uint64{LimitProcesses: 12}))
	groups := groupsOf(p)
	dir := groups.V2
	if dir == "" {
		dir = groups.V1["pids"]
	}
	events := dir + "/pids.events"
	for deadline := time.Now().Add(testTimeout); !strings.HasPrefix(readText(events), "max ") || strings.HasPrefix(readText(events), "max 0"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the limit was never reached: %q", readText(events))
		}
	}
	if current, err := strconv.Atoi(strings.TrimSpace(readText(dir + "/pids.current"))); err != nil || current > 12 {
		t.Errorf("%d processes, %v", current, err)
	}
	if other := finish(t, s, shell("true | true | true")); other.code != 0 {
		t.Errorf("another command ended with %d", other.code)
	}
	p.Kill()
	awaitSettled(t, s, p)
}

// awaitThrottled waits until the processes of a cgroup have been held back in two periods.
func awaitThrottled(t *testing.T, dir string) {
	t.Helper()
	stat := dir + "/cpu.stat"
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
		held := 0
		for line := range strings.Lines(readText(stat)) {
			if rest, ok := strings.CutPrefix(line, "nr_throttled "); ok {
				held, _ = strconv.Atoi(strings.TrimSpace(rest))
			}
		}
		if held >= 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the command was never held back: %s", readText(stat))
		}
	}
}

// A command gets its part of a processor: it is held back in nearly each period.
func TestCPULimit(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, Config{})
	needGroups(t, s, LimitCPUs)
	p, _ := start(t, s, limited("while :; do :; done", map[Limit]uint64{LimitCPUs: 100}))
	groups := groupsOf(p)
	dir := groups.V2
	if dir == "" {
		dir = groups.V1["cpu"]
	}
	awaitThrottled(t, dir)
	p.Kill()
	awaitSettled(t, s, p)
}

// The limits of open files and of the size of a file hold everywhere.
func TestRlimits(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, Config{})
	spec := limited("ulimit -n; ulimit -f; cat /dev/zero >file", map[Limit]uint64{LimitFiles: 33, LimitDisk: 8 << 10})
	spec.Dir, spec.BestEffort = t.TempDir(), true
	p, sink := start(t, s, spec)
	if e := p.Limits(); e.By[LimitFiles] != ByRlimit || e.By[LimitDisk] != ByRlimit {
		t.Errorf("%+v", e)
	}
	awaitDone(t, p)
	if out := sink.text(outlog.Stdout); out != "33\n16\n" || sink.code != 128+int(unix.SIGXFSZ) {
		t.Errorf("output %q, exit code %d", out, sink.code)
	}
	if info, err := os.Stat(spec.Dir + "/file"); err != nil || info.Size() != 8<<10 {
		t.Errorf("the file: %v, %v", info, err)
	}
}

func init() {
	// The helper prints the most open files, with and without the capability to raise the limit.
	helpers["machine-files"] = func() {
		runtime.LockOSThread()
		fmt.Println(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 400, Max: 500}), mayRaiseLimits(), MachineLimits()[LimitFiles])
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		err := unix.Capget(&header, &sets[0])
		sets[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
		fmt.Println(errors.Join(err, unix.Capset(&header, &sets[0])), mayRaiseLimits(), MachineLimits()[LimitFiles])
	}
}

// A command gets no more open files than the hard limit of a server that may not raise it, such as root in a container.
func TestMostOpenFiles(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperVariable+"=machine-files")
	out, err := cmd.Output()
	most := "<nil> false 500\n"
	if mayRaiseLimits() {
		most = "<nil> true " + readText("/proc/sys/fs/nr_open")
	}
	if err != nil || string(out) != most+"<nil> false 500\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// A limit of the disk space is refused, because the kernel limits each file on its own.
func TestUnenforceableLimit(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, Config{NoCgroups: true})
	for _, l := range []Limit{LimitMemory, LimitCPUs, LimitProcesses, LimitDisk} {
		spec := limited("exit 5", map[Limit]uint64{l: 4000})
		_, err := s.Start(t.Context(), spec, newRecorder(t))
		if e, ok := errors.AsType[*LimitError](err); !ok || e.Limit != l || e.Fix == "" {
			t.Errorf("%s: %v", l, err)
		}
		if err := s.CheckLimits(spec.Limits); err == nil {
			t.Errorf("%s: the check finds nothing", l)
		}
		spec.BestEffort = true
		p, sink := start(t, s, spec)
		awaitDone(t, p)
		if by := p.Limits().By[l]; sink.code != 5 || by != ByNothing && by != ByRlimit {
			t.Errorf("%s: by %s, exit code %d", l, by, sink.code)
		}
	}
}

// A command is terminated when its time is up, and so is what it has left in the background.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, Config{})
	p, sink := start(t, s, limited("trap 'echo ends; exit 3' TERM; while :; do sleep 0.01; done", map[Limit]uint64{LimitTime: uint64(300 * time.Millisecond)}))
	awaitDone(t, p)
	if sink.code != 3 || sink.text(outlog.Stdout) != "ends\n" || !p.TimedOut() || p.Limits().By[LimitTime] != ByTimer {
		t.Errorf("exit code %d, output %q, timed out %t", sink.code, sink.text(outlog.Stdout), p.TimedOut())
	}
	p, sink = start(t, s, limited("sleep 1000 >/dev/null 2>&1 & exit 4", map[Limit]uint64{LimitTime: uint64(300 * time.Millisecond)}))
	awaitDone(t, p)
	if sink.code != 4 || p.TimedOut() {
		t.Errorf("exit code %d, timed out %t", sink.code, p.TimedOut())
	}
	awaitSettled(t, s, p)
}

// A command that ends in time is not ended by its limit, and closing does not wait for it.
func TestTimeLimitNotReached(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	p, sink := start(t, s, limited("exit 6", map[Limit]uint64{LimitTime: uint64(time.Hour)}))
	awaitDone(t, p)
	if sink.code != 6 || p.TimedOut() {
		t.Errorf("exit code %d, timed out %t", sink.code, p.TimedOut())
	}
	start(t, s, limited("exec sleep 1000", map[Limit]uint64{LimitTime: uint64(time.Hour)}))
	s.Close() // would wait for the timer
}

// Commands are killed before the server when memory is short.
func TestScoreOfCommands(t *testing.T) {
	t.Parallel()
	want, ok := scoreOfCommands()
	if !ok {
		t.Skip("the score of this program cannot be exceeded")
	}
	s := newSupervisor(t, Config{})
	if got := finish(t, s, shell("cat /proc/self/oom_score_adj")).text(outlog.Stdout); strings.TrimSpace(got) != want {
		t.Errorf("score %q, want %s", got, want)
	}
}

// totalGroup returns the cgroup by which a limit holds for all commands together.
func totalGroup(s *Supervisor, l Limit) string {
	if s.host.cgroups != nil && s.host.cgroups.total[l] != 0 {
		return s.host.cgroups.parent.path
	}
	return s.host.limiter.v1[l].parent.path
}

// All commands together get no more processes than the total, and the server is not among them.
func TestTotalLimit(t *testing.T) {
	t.Parallel()
	cfg := Config{}
	cfg.Total[LimitProcesses] = 30
	s := newSupervisor(t, cfg)
	needGroups(t, s, LimitProcesses)
	if err := s.CheckLimits(Limits{}); err != nil {
		t.Fatal(err)
	}
	sleepers := "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 1000 & done 2>/dev/null; echo done; wait"
	first, out := start(t, s, shell(sleepers))
	out.awaitText(outlog.Stdout, "done\n")
	second, out := start(t, s, limited(sleepers, map[Limit]uint64{LimitProcesses: 100}))
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		if _, exited := second.Exited(); exited || strings.Contains(out.text(outlog.Stdout), "done") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the second command has not reached the limit")
		}
	}
	if count := len(NewFinder().Members(first)) + len(NewFinder().Members(second)); count > 30 || count < 16 {
		t.Errorf("%d processes", count)
	}
	first.Kill()
	second.Kill()
	awaitSettled(t, s, second)
}

// All commands together get their part of a processor.
func TestTotalCPULimit(t *testing.T) {
	t.Parallel()
	cfg := Config{}
	cfg.Total[LimitCPUs] = 100
	s := newSupervisor(t, cfg)
	needGroups(t, s, LimitCPUs)
	p, _ := start(t, s, shell("while :; do :; done"))
	awaitThrottled(t, totalGroup(s, LimitCPUs))
	p.Kill()
	awaitSettled(t, s, p)
}

// When all commands together have reached the limit of memory, the account of the command that is killed says so, and other
// commands live.
func TestTotalMemoryLimit(t *testing.T) {
	t.Parallel()
	cfg := Config{}
	cfg.Total[LimitMemory] = 64 << 20
	s := newSupervisor(t, cfg)
	needGroups(t, s, LimitMemory)
	other, _ := start(t, s, shell("exec sleep 1000"))
	for _, row := range []struct {
		script string
		limit  uint64
		want   account.Kill
	}{
		{"true", 0, account.Kill{}},
		{"head -c 40M /dev/zero | tail >/dev/null", 20 << 20, account.Kill{Processes: 1, Cause: account.OwnLimit, Limit: 20 << 20}},
		{"head -c 100M /dev/zero | tail >/dev/null", 0, account.Kill{Processes: 1, Cause: account.TotalLimit, Limit: 64 << 20}},
		{"head -c 100M /dev/zero | tail >/dev/null", 64 << 20, account.Kill{Processes: 1, Cause: account.TotalLimit, Limit: 64 << 20}},
	} {
		p, sink := start(t, s, limited(row.script, map[Limit]uint64{LimitMemory: row.limit}))
		awaitDone(t, p)
		used, _ := p.Usage()
		if row.limit == cfg.Total[LimitMemory] && used.Kill.Cause == account.OwnLimit { // both are reached at once
			row.want.Cause = account.OwnLimit
		}
		if killed := sink.code == 137; used.Kill != row.want || killed != (row.want.Processes > 0) || used.Memory.Of != account.Tree {
			t.Errorf("%s, limit %d: exit code %d, account %+v", row.script, row.limit, sink.code, used)
		}
		awaitNoLeftovers(t, p)
	}
	if _, exited := other.Exited(); exited {
		t.Error("another command was killed")
	}
	other.Kill()
	awaitSettled(t, s, other)
}

// Where there is no cgroup of version 2, the cgroups that limit a command also tell what belongs to it: a daemon, which has left
// its session, its parent and its output, is found, and it ends with the command.
func TestDaemonInLimitGroups(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, Config{})
	s.needHost()
	if s.host.cgroups != nil {
		s.host.cgroups.broken.Store(true)
	}
	needGroups(t, s, LimitProcesses)
	for name, end := range map[string]func(*Process){"killed": (*Process).Kill, "out of time": (*Process).timeUp} {
		spec := limited("setsid -f sh -c 'echo $$ >new; mv new pid; exec sleep 1000' </dev/null >/dev/null 2>&1; while ! test -e pid; do sleep 0.01; done; echo ready; exec sleep 1000",
			map[Limit]uint64{LimitProcesses: 50})
		spec.Dir = t.TempDir()
		p, out := start(t, s, spec)
		out.awaitText(outlog.Stdout, "ready\n")
		pid, err := strconv.Atoi(strings.TrimSpace(readText(spec.Dir + "/pid")))
		if err != nil {
			t.Fatal(err)
		}
		if left := p.child.tree.survivors(); !slices.ContainsFunc(left, func(s Survivor) bool { return s.PID == pid }) {
			t.Errorf("the daemon %d would not be reported: %+v", pid, left)
		}
		end(p)
		awaitDone(t, p)
		awaitSettled(t, s, p)
		if entry, alive := readProcess(pid); alive && !entry.dead {
			t.Errorf("%s: the daemon lives", name)
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// A limit of processes does not move commands to a cgroup of version 1 of the processors: its shares would count instead of
// their own.
func TestNoWeights(t *testing.T) {
	t.Parallel()
	cfg := Config{OwnGroup: true}
	cfg.Total[LimitProcesses] = 1000
	s := newSupervisor(t, cfg)
	needGroups(t, s, LimitProcesses)
	cpu := "grep ':cpu[:,]' /proc/self/cgroup; :"
	plain, limited := shell(cpu), limited(cpu, map[Limit]uint64{LimitProcesses: 100})
	for _, spec := range []Spec{plain, limited} {
		if out := finish(t, s, spec).text(outlog.Stdout); strings.Contains(out, cgroupPrefix) {
			t.Errorf("the command is in %q", out)
		}
	}
}

// Without control groups a total is an error. It says why there are none, and offers nothing that servers do not have.
func TestTotalLimitWithoutGroups(t *testing.T) {
	t.Parallel()
	cfg := Config{NoCgroups: true}
	cfg.Total[LimitMemory] = 1 << 30
	s := newSupervisor(t, cfg)
	if e, ok := errors.AsType[*LimitError](s.CheckLimits(Limits{})); !ok || e.Limit != LimitMemory {
		t.Errorf("%v", s.CheckLimits(Limits{}))
	}
	l := newLimiter(nil, "", Config{Total: cfg.Total}, nil, unix.EACCES, nil)
	if text := l.totalErrs.Error(); !strings.Contains(text, "(version 2: permission denied; version 1: ") || strings.Contains(text, "best-effort") {
		t.Errorf("%s", text)
	}
}

// A program that takes over a command keeps its limits in force, and ends it when its time is up. Cgroups that no slot
// claims are removed, with what is in them.
func TestAdoptedLimits(t *testing.T) {
	keeper := &testKeeper{}
	first := newSupervisor(t, Config{Keeper: keeper})
	needGroups(t, first, LimitMemory, LimitProcesses)
	slot := newSlot(t)
	pool := outlog.NewPool(t.TempDir(), 1<<20)
	log := outlog.New(pool, outlog.Config{Slot: slot})
	spec := limited("exec sleep 1000 >/dev/null 2>&1", map[Limit]uint64{LimitMemory: 64 << 20, LimitProcesses: 20, LimitTime: uint64(time.Second)})
	spec.Slot = slot
	p, err := first.Start(t.Context(), spec, log)
	if err != nil {
		t.Fatal(err)
	}
	groups := groupsOf(p)
	p.stopTime()                                                                                       // the first program is dead from now on
	unclaimed, err := first.host.limiter.make(&Enforced{Limits: p.Limits().Limits, By: p.Limits().By}) // as after a death before the slot had it
	if err != nil {
		t.Fatal(err)
	}

	second := newSupervisor(t, Config{Keeper: keeper})
	second.SweepUnclaimed(slot.Arena())
	ended, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	adopted, err := second.Adopt(t.Context(), Adoption{Spec: Spec{Slot: slot}, Sink: new(Capture), Files: map[Which]*os.File{HeldStdout: ended}})
	if err != nil {
		t.Fatal(err)
	}
	if adopted.Limits() != p.Limits() {
		t.Errorf("limits %+v, before %+v", adopted.Limits(), p.Limits())
	}
	if again := groupsOf(adopted); again.V2 != groups.V2 || again.V1["memory"] != groups.V1["memory"] {
		t.Errorf("groups %+v, before %+v", again, groups)
	}
	awaitDone(t, adopted)
	if !adopted.TimedOut() || slot.Ending.Load() != endingTime {
		t.Error("it was not ended because its time was up")
	}
	for deadline := time.Now().Add(testTimeout); adopted.Leftovers(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not settled")
		}
	}
	for _, path := range groups.V1 {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if unclaimed != nil {
		second.tasks.Wait()
		for _, path := range unclaimed.paths {
			if _, err := os.Stat(path); path != "" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", path, err)
			}
		}
	}
	awaitDone(t, p)
	keeper.Free(0)
}

// What is recorded about limits is what was decided.
func TestStoredLimits(t *testing.T) {
	slot := newSlot(t)
	want := Enforced{Limits: Limits{1, 1 << 62, 0, 4, 5, 6}, By: [LimitCount]By{ByCgroup2, ByCgroup1, ByNothing, ByRlimit, ByNothing, ByTimer}}
	want.store(slot)
	if got := storedLimits(slot); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// limitDirs are control groups.
type limitDirs struct {
	V2 string            // of version 2; "": none
	V1 map[string]string // of version 1, by controller: memory, cpu, pids
}

// groupsOf returns the control groups by which a process is limited.
func groupsOf(p *Process) (g limitDirs) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled {
		return g
	}
	tree := p.child.tree
	if launched, ok := tree.(launchedTree); ok {
		tree = launched.tree
	}
	if group, ok := tree.(*cgroup); ok && p.child.limited.inCgroup2() {
		g.V2 = group.path
	}
	if p.child.limits == nil {
		return g
	}
	g.V1 = map[string]string{}
	for i, path := range p.child.limits.paths {
		if path != "" && p.child.limits.own[i] {
			g.V1[controllerNames[i]] = path
		}
	}
	return g
}
