package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/fork"
	"github.com/tetherexec/tether/internal/outlog"
)

func count(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func childrenOfTest(t *testing.T) (pids []int) {
	t.Helper()
	for pid, entry := range readProcessTable() {
		if entry.parent == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Close leaves no descriptor, process, zombie or cgroup; goroutines are checked by TestMain.
func TestCloseLeavesNothing(t *testing.T) {
	for _, noCgroups := range []bool{false, true} {
		before := count(t, "/proc/self/fd")
		s := New(Config{NoCgroups: noCgroups})
		s.needHost()
		var parent string
		if s.host.cgroups != nil {
			parent = s.host.cgroups.parent.path
		}
		for i := range 8 {
			spec := shell("head -c 300000 /dev/zero; sleep 1000 >/dev/null 2>&1 & cat")
			spec.TTY, spec.PipeStdin = i%4 == 0, i%2 == 0
			start(t, s, spec)
			finish(t, s, shell("true"))
			if _, err := s.Start(t.Context(), Spec{Argv: []string{"/none"}, Dir: "/"}, newRecorder(t)); err == nil {
				t.Error("started nothing")
			}
			if _, err := s.Start(t.Context(), Spec{Argv: []string{"/etc/passwd"}, Dir: "/", TTY: true}, newRecorder(t)); err == nil {
				t.Error("started a file")
			}
		}
		s.Close()
		if after := count(t, "/proc/self/fd"); after > before { // the collector may close files of earlier tests
			t.Errorf("%d descriptors before, %d after", before, after)
		}
		if pids := childrenOfTest(t); len(pids) > 0 {
			t.Errorf("children left: %v", pids)
		}
		if parent != "" {
			if _, err := os.Stat(parent); !os.IsNotExist(err) {
				t.Errorf("cgroup left: %v", err)
			}
		}
	}
}

// After many short processes the cgroups were reused.
func TestCgroupsAreReused(t *testing.T) {
	s := newSupervisor(t, Config{})
	if s.host.cgroups == nil {
		t.Skip("no writable cgroup file system of version 2 here")
	}
	for range 20 {
		finish(t, s, shell("true"))
	}
	if s.host.cgroups.next > 3 {
		t.Errorf("%d cgroups made for 20 processes in a row", s.host.cgroups.next)
	}
}

func TestCgroupRemovedByOthersIsMadeAgain(t *testing.T) {
	s := newSupervisor(t, Config{})
	if s.host.cgroups == nil {
		t.Skip("no writable cgroup file system of version 2 here")
	}
	finish(t, s, shell("true"))
	removeCgroup(s.host.cgroups.parent.path)
	finish(t, s, shell("true"))
	if s.host.cgroups.broken.Load() {
		t.Error("cgroups given up")
	}
}

func TestSweepRemovesCgroupsOfEndedPrograms(t *testing.T) {
	own, err := ownCgroup()
	if err != nil {
		t.Skip(err)
	}
	// Tests of other packages sweep too; they must not remove it before it is
	// complete.
	stale, lock := filepath.Join(own, fmt.Sprint(cgroupPrefix, "test-", os.Getpid())), -1
	for range 100 {
		if err := os.MkdirAll(filepath.Join(stale, "1", "nested"), 0o755); err != nil && !os.IsNotExist(err) {
			t.Skip(err)
		}
		if lock, err = unix.Open(stale, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			continue
		}
		if unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB) == nil {
			if _, err := os.Stat(filepath.Join(stale, "1", "nested")); err == nil {
				break
			}
		}
		unix.Close(lock)
		lock = -1
	}
	if lock < 0 {
		t.Fatal("others have removed it each time")
	}
	defer removeCgroup(stale)
	survivor := exec.Command("sleep", "1000")
	if err := survivor.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stale, "1", "cgroup.procs"), []byte(itoa(survivor.Process.Pid)), 0); err != nil {
		t.Error(err)
	}
	unix.Close(lock)
	s := newSupervisor(t, Config{})
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) { // the sweep of another test may be running
		_, err := os.Stat(stale)
		if os.IsNotExist(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("still there: %v", err)
			survivor.Process.Kill()
			break
		}
	}
	if survivor.Wait(); survivor.ProcessState.Success() {
		t.Error("the sweep did not kill the process")
	}
	newSupervisor(t, Config{}) // its sweep must spare the first
	if _, err := os.Stat(s.host.cgroups.parent.path); err != nil {
		t.Error(err)
	}
}

// However often other programs sweep, a supervisor gets its cgroup and keeps it.
func TestParentIsNotSwept(t *testing.T) {
	m, err := ownMemberships()
	if err != nil {
		t.Skip(err)
	}
	own, err := ownCgroup()
	if err != nil {
		t.Skip(err)
	}
	first, err := openCgroups(m, parentName(nil), nil, false)
	if err != nil {
		t.Skip(err)
	}
	first.close()
	stop := make(chan struct{})
	var sweepers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					sweepCgroups(own)
				}
			}
		})
	}
	for range 300 {
		c, err := openCgroups(m, parentName(nil), nil, false)
		if err != nil {
			t.Error(err)
			break
		}
		if _, err := os.Stat(c.parent.path); err != nil {
			t.Error(err)
		}
		c.close()
	}
	close(stop)
	sweepers.Wait()
}

func TestLocateCgroup(t *testing.T) {
	const hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
	for _, c := range []struct{ mounts, memberships, controller, want string }{
		{hybrid, "1:cpu:/x\n0::/\n", "", "/sys/fs/cgroup/unified"},
		{hybrid, "0::/user.slice/a b\n", "", "/sys/fs/cgroup/unified/user.slice/a b"},
		{"1 2 0:3 /pod/1 /sys/fs/cgroup ro - cgroup2 c rw\n", "0::/pod/1/x\n", "", "/sys/fs/cgroup/x"},
		{"1 2 0:3 / /my\\040cg ro - cgroup2 c rw\n", "0::/x\n", "", "/my cg/x"},
		{"1 2 0:3 /pod/1 /sys/fs/cgroup ro - cgroup2 c rw\n", "0::/pod/2\n", "", ""},
		{hybrid, "0::/../other\n", "", ""},
		{hybrid, "1:cpu:/x\n", "", ""},
		{"", "0::/\n", "", ""},
		{hybrid, "1:cpu:/x\n0::/\n", "cpu", "/sys/fs/cgroup/cpu/x"},
		{hybrid, "1:cpu,cpuacct:/x:y\n0::/\n", "cpu", "/sys/fs/cgroup/cpu/x:y"},
		{hybrid, "1:cpu:/x\n2:memory:/\n", "memory", ""}, // not mounted
		{hybrid, "0::/x\n", "cpu", ""},
	} {
		m, err := parseMemberships(c.mounts, c.memberships)
		if err != nil {
			t.Fatal(err)
		}
		kind := "cgroup2"
		if c.controller != "" {
			kind = "cgroup"
		}
		got, err := m.locate(c.controller, kind)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s %q in %q: %q, %v", c.controller, c.memberships, c.mounts, got, err)
		}
	}
}

// Idle children cost neither threads nor much memory.
func TestIdleChildrenAreCheap(t *testing.T) {
	s := newSupervisor(t, Config{})
	finish(t, s, shell("true"))
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	const children = 300
	sinks := make([]*recorder, children)
	for i := range sinks {
		sinks[i] = newRecorder(t)
	}
	before := memory()
	for i := range children {
		spec := Spec{Argv: []string{"/bin/sleep", "1000"}, Dir: "/", PipeStdin: true}
		if _, err := s.Start(t.Context(), spec, sinks[i]); err != nil {
			t.Fatal(err)
		}
	}
	each := int64(memory()-before) / children
	threads := count(t, "/proc/self/task")
	t.Logf("%d threads, %d bytes for each of %d children", threads, each, children)
	if threads > children/5 { // on a busy machine the runtime makes more than it needs
		t.Errorf("%d threads", threads)
	}
	if each > 24<<10 && !raceEnabled {
		t.Errorf("%d bytes for each child", each)
	}
}

// startHelper runs this test binary as a helper and returns its lines.
func startHelper(t *testing.T, name string, prepare func(*exec.Cmd)) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperVariable+"="+name)
	cmd.Stderr = os.Stderr
	if prepare != nil {
		prepare(cmd)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// printSink prints the events of a process, for helpers.
type printSink struct{ done chan struct{} }

func (printSink) Append(_ outlog.Stream, p []byte) error { fmt.Printf("%s", p); return nil }
func (printSink) Exit(code int)                          { fmt.Printf("exit=%d\n", code) }
func (printSink) Cut()                                   {}
func (s printSink) Close()                               { close(s.done) }

func init() {
	helpers["inherit"] = func() {
		if err := ResetInherited(); err != nil {
			panic(err)
		}
		s := New(Config{})
		defer s.Close()
		sink := printSink{make(chan struct{})}
		if _, err := s.Start(background, shell("grep SigIgn /proc/self/status; grep SigBlk /proc/self/status; exec ls /proc/self/fd"), sink); err != nil {
			panic(err)
		}
		<-sink.done
	}
	helpers["orphans"] = func() {
		s := New(Config{Subreaper: true})
		defer s.Close()
		sink := printSink{make(chan struct{})}
		// Two orphans that outlive their parent and then end.
		script := "(setsid sleep 0.01 >/dev/null 2>&1 &); (sleep 0.02 >/dev/null 2>&1 &)"
		if _, err := s.Start(background, shell(script), sink); err != nil {
			panic(err)
		}
		<-sink.done
		// Children that another part of this program started and waits for later.
		other := exec.Command("true")
		if err := other.Start(); err != nil {
			panic(err)
		}
		other2 := exec.Command("cat")
		in, err := other2.StdinPipe()
		if err == nil {
			err = other2.Start()
		}
		if err != nil {
			panic(err)
		}
		first := other.Wait()
		left := func(want int) (children int) { // waits until so many are left
			for deadline := time.Now().Add(testTimeout); ; time.Sleep(reapInterval / 100) {
				children = len(childrenIn(readProcessTable()))
				if children == want || time.Now().After(deadline) {
					return children
				}
			}
		}
		fmt.Println("left:", left(1))
		in.Close()
		fmt.Println("other:", first, other2.Wait())
		fmt.Println("left:", left(0))
	}
	helpers["server"] = func() {
		s := New(Config{})
		sink := printSink{make(chan struct{})}
		if _, err := s.Start(background, shell("echo pid=$$; exec sleep 1000"), sink); err != nil {
			panic(err)
		}
		io.Copy(io.Discard, os.Stdin) // ends with the test
	}
}

// Children do not inherit the descriptors and ignored signals that this program
// inherited.
func TestResetInherited(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, lines := startHelper(t, "inherit", func(cmd *exec.Cmd) {
		cmd.Path = "/bin/sh"
		cmd.Args = []string{"sh", "-c", `trap '' HUP INT TSTP USR1; exec "$0"`, exe}
		cmd.ExtraFiles = []*os.File{r, w}
	})
	var got []string
	for lines.Scan() {
		got = append(got, strings.TrimSpace(lines.Text()))
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	got = slices.DeleteFunc(got, func(line string) bool { return line == "exit=0" }) // it may come early
	want := "SigIgn:\t0000000000000000|SigBlk:\t0000000000000000|0|1|2|3"
	if text := withoutLibcSignals(strings.Join(got, "|")); text != want {
		t.Errorf("child saw %q, want %q", text, want)
	}
}

func TestSubreaperReapsOrphansOnly(t *testing.T) {
	cmd, lines := startHelper(t, "orphans", nil)
	var got []string
	for lines.Scan() {
		got = append(got, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(got, "|"); text != "exit=0|left: 1|other: <nil> <nil>|left: 0" {
		t.Errorf("the helper printed %q", text)
	}
}

// When the supervisor's program is killed, its children get a signal.
func TestChildrenDoNotOutliveTheProgram(t *testing.T) {
	cmd, lines := startHelper(t, "server", func(cmd *exec.Cmd) {
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	})
	var pid int
	for pid == 0 && lines.Scan() {
		fmt.Sscanf(lines.Text(), "pid=%d", &pid)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if pid == 0 {
		t.Fatal("no child")
	}
	awaitDeath(t, pid)
	if own, err := ownCgroup(); err == nil {
		removeCgroup(filepath.Join(own, fmt.Sprintf("%s%d-1", cgroupPrefix, cmd.Process.Pid)))
	}
}

// If the kernel cannot start processes in cgroups, one start is tried twice, and
// then cgroups are given up.
func TestCgroupThatDoesNotWorkIsGivenUp(t *testing.T) {
	s := newSupervisor(t, Config{})
	if s.host.cgroups == nil {
		t.Skip("no writable cgroup file system of version 2 here")
	}
	r := &forkRequest{
		ctx: t.Context(), program: "/bin/true", argv: []string{"true"}, dir: -1, files: []int{0, 1, 2},
		cgroup: 0, // not a cgroup
	}
	f, starter := s.host.forks, fork.NewStarter()
	defer starter.Close()
	result := f.serve(starter, r)
	if result.err != nil || result.inCgroup || !s.host.cgroups.broken.Load() {
		t.Errorf("%+v, broken %v", result, s.host.cgroups.broken.Load())
	}
	f.discard(result)
	finish(t, s, shell("true"))
}

func TestLateForkIsDiscarded(t *testing.T) {
	s := newSupervisor(t, Config{})
	r := &forkRequest{program: "/bin/sleep", argv: []string{"sleep", "1000"}, dir: -1, files: []int{0, 1, 2}, cgroup: -1}
	starter := fork.NewStarter()
	defer starter.Close()
	result := s.host.forks.serve(starter, r)
	if result.err != nil {
		t.Fatal(result.err)
	}
	s.host.forks.discard(result)
	if err := unix.Kill(result.pid, 0); err != syscall.ESRCH {
		t.Errorf("child is still there: %v", err)
	}
	if s.host.own.has(result.pid) {
		t.Error("child is still known")
	}
}

// A cut keeps the bytes of a full pipe.
func TestCutKeepsWrittenOutput(t *testing.T) {
	s := newSupervisor(t, Config{})
	s.stuck = s.grace
	sink := newRecorder(t)
	unblock := sink.block()
	defer unblock()
	spec := shell("printf x; read go; head -c 60000 /dev/zero; sleep 1000")
	spec.PipeStdin = true
	p, err := s.Start(t.Context(), spec, sink)
	if err != nil {
		t.Fatal(err)
	}
	<-sink.waiting
	write(t, p, "go\n", nil)
	awaitPipe(t, p, 60000)
	p.Terminate()
	awaitDeath(t, p.Pid())
	<-p.ending.finished
	p.outputs[0].cutAfter(-time.Second) // as if the grace had passed
	unblock()
	awaitDone(t, p)
	if n := len(sink.text(outlog.Stdout)); n != 60001 {
		t.Errorf("%d bytes kept", n)
	}
}

// awaitPipe waits until the pipe of stdout holds n bytes.
func awaitPipe(t *testing.T, p *Process, n int) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); runtime.Gosched() {
		queued := 0
		withDescriptor(p.outputs[0].file, func(fd int) (err error) {
			queued, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
			return err
		})
		if queued >= n {
			return
		}
	}
	t.Fatal("the pipe does not fill")
}

// Concurrent starts need hardly more descriptors than starts one after the other.
func TestManyStartsAtOnceSpareDescriptors(t *testing.T) {
	const starts = 600
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	s := newSupervisor(t, Config{})
	low := limit
	low.Cur = min(limit.Cur, uint64(count(t, "/proc/self/fd")+starts*3+launchesAtOnce*8+200)) // stdout, stderr and pidfd of each
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	var all sync.WaitGroup
	for range starts {
		all.Go(func() {
			if _, err := s.Start(t.Context(), Spec{Argv: []string{"/bin/sleep", "1000"}, Dir: "/"}, newRecorder(t)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.Close()
}

// A process can be terminated when there is no free descriptor.
func TestTerminateWithoutDescriptors(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		p, sink := start(t, s, shell("trap '' TERM; sleep 1000 & echo pid=$!; wait; sleep 1000"))
		pid := awaitPids(t, sink, 1)[0]
		restore := exhaustDescriptors(t)
		p.Terminate()
		awaitDone(t, p)
		restore()
		awaitDeath(t, pid)
		if sink.code != 137 {
			t.Errorf("code %d", sink.code)
		}
		p.Kill()
		if p.Leftovers() {
			t.Error("leftovers")
		}
	})
}

// exhaustDescriptors makes every open fail until restore is called.
func exhaustDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	restore = sync.OnceFunc(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(restore)
	return restore
}
