package probe

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Calls that every user may make without a sandbox, and that leave no trace.
func TestOrdinaryCalls(t *testing.T) {
	for _, name := range []string{
		"process-vm-readv", "process-vm-writev", "ptrace-child", "ptrace-traceme", "pidfd-getfd", "memfd-exec",
		"personality", "shm-create", "sem-create", "msg-create", "kill-all",
	} {
		expect(t, "ok", name)
	}
}

// Calls that a kernel may be built or configured without.
func TestRareCalls(t *testing.T) {
	for _, name := range []string{
		"userfaultfd", "io-uring-setup", "io-uring-enter", "io-uring-register", "keyctl", "add-key", "request-key", "quotactl",
	} {
		allowed := []string{"ok", name + ": ENOSYS", name + ": EPERM"}
		if r := run(t, name); !slices.Contains(allowed, r.out) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Calls that only root may make: each prints ok, and does nothing.
func TestRootCalls(t *testing.T) {
	asRoot(t)
	before := hostState(t)
	for _, name := range []string{
		"open-tree", "fsopen", "move-mount", "mount-setattr", "pivot-root", "bpf", "perf-event-open", "fanotify",
		"kexec-load", "init-module", "reboot", "swapon",
	} {
		allowed := []string{"ok", name + ": ENOSYS", name + ": EPERM"}
		if r := run(t, name); !slices.Contains(allowed, r.out) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	unchanged(t, before)
}

// hostState is the state that a probe with too much effect would change.
func hostState(t *testing.T) []string {
	t.Helper()
	var state []string
	for _, name := range []string{"/proc/self/mountinfo", "/proc/swaps"} {
		b, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) { // a kernel may be without swap
			t.Fatal(err)
		}
		state = append(state, name+"\n"+string(b))
	}
	return state
}

func unchanged(t *testing.T, before []string) {
	t.Helper()
	for i, text := range hostState(t) {
		if text != before[i] {
			t.Errorf("changed from\n%s\nto\n%s", before[i], text)
		}
	}
}

func TestInt80(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		expect(t, "int80: ENOSYS", "int80", "getpid")
		return
	}
	r := run(t, "int80", "getpid")
	if r.out == "int80: SIGSEGV" || r.out == "int80: ENOSYS" {
		t.Skipf("this kernel has no interface for 32-bit programs: %s", r.out)
	}
	if r.out != "ok" || r.code != exitOK {
		t.Errorf("getpid: %+v", r)
	}
	expect(t, "ok", "int80", "socket")
	if r := run(t, "int80", "write"); r.code != exitUsage {
		t.Errorf("unknown call: %+v", r)
	}
}

func TestX32SystemCalls(t *testing.T) {
	if r := run(t, "x32", "getpid"); r.out != "ok" && r.out != "x32: ENOSYS" {
		t.Errorf("got %+v", r)
	}
}

func TestRaise(t *testing.T) {
	for _, sig := range []string{"KILL", "TERM", "SIGSEGV", "ABRT", "INT", "HUP", "PIPE", "SYS", "URG", "10"} {
		number, err := signalNumber(sig)
		if err != nil {
			t.Fatal(sig, err)
		}
		c := command(t, "raise", sig)
		c.Dir = t.TempDir()
		r := finish(t, c)
		if sig == "URG" { // ignored by default
			if r.out != "survived" || r.code != exitOK {
				t.Errorf("raise URG: %+v", r)
			}
		} else if r.code != 128+int(number) || r.out != "" || r.err != "" {
			t.Errorf("raise %s: %+v", sig, r)
		}
		if left, err := filepath.Glob(c.Dir + "/*"); err != nil || len(left) > 0 {
			t.Errorf("raise %s left %q (%v)", sig, left, err)
		}
	}
}

func TestWaitSignalAndKill(t *testing.T) {
	c := command(t, "wait-signal", "USR1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Errorf("first line %q", lines.Text())
	}
	expect(t, "ok", "kill", strconv.Itoa(c.Process.Pid), "USR1")
	if !lines.Scan() || lines.Text() != "got SIGUSR1" {
		t.Errorf("second line %q", lines.Text())
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	expect(t, "kill: ESRCH", "kill", strconv.Itoa(c.Process.Pid), "0")
}

func TestFds(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	plain := strings.Fields(run(t, "fds").out)
	c := command(t, "fds")
	c.ExtraFiles = []*os.File{null, null}
	extra := strings.Fields(finish(t, c).out)
	for _, fd := range []string{"0", "1", "2", "3", "4"} {
		if !slices.Contains(extra, fd) {
			t.Errorf("%s is missing in %q", fd, extra)
		}
	}
	// The test may have been started with descriptors of its own.
	for _, fd := range extra {
		if fd != "3" && fd != "4" && !slices.Contains(plain, fd) {
			t.Errorf("%s is in %q, but was not inherited", fd, extra)
		}
	}
	if slices.Contains(plain, "3") && slices.Contains(plain, "4") {
		t.Logf("inherited from the caller of the test: %q", plain)
	}
}

func TestFacts(t *testing.T) {
	for _, want := range []string{"CapEff: ", "CapAmb: ", "NoNewPrivs: ", "Seccomp: ", "uid_map: ", "setgroups: "} {
		if r := run(t, "status"); !strings.Contains(r.out, want) || r.code != exitOK {
			t.Errorf("status lacks %q: %+v", want, r)
		}
	}
	if r := run(t, "listproc"); !slices.Contains(strings.Fields(r.out), strconv.Itoa(os.Getpid())) {
		t.Errorf("listproc lacks this process: %q", r.out)
	}
	if r := run(t, "netdev"); !slices.Contains(strings.Fields(r.out), "lo") {
		t.Errorf("netdev lacks lo: %q", r.out)
	}
}

func TestSigmask(t *testing.T) {
	c := command(t, "sigmask")
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" INT TTOU; exec "$@"`, "sh"}, c.Args...)
	r := finish(t, c)
	_, mask, _ := strings.Cut(r.out, "SigIgn: ")
	ignored, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTTOU} {
		if ignored&(1<<(sig-1)) == 0 {
			t.Errorf("%v is not in %x", sig, ignored)
		}
	}
	if !strings.Contains(r.out, "SigBlk: ") {
		t.Errorf("no SigBlk: %q", r.out)
	}
}

// If a signal kills the child, the error has the name of the signal.
func TestScriptEndedBySignal(t *testing.T) {
	pid, err := sleeper()
	if err != nil {
		t.Fatal(err)
	}
	if err := end(pid); err != nil {
		t.Error(err)
	}
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("the child is still there: %v", err)
	}
	var s script
	self := s.must("getpid", unix.SYS_GETPID)
	s.on(self, "kill", unix.SYS_KILL, uintptr(unix.SIGKILL))
	if err := s.last(); err != error(killedError(unix.SIGKILL)) {
		t.Errorf("got %v", err)
	}
}

// A step is skipped after a failed must, and if the step that it needs has
// failed.
func TestScriptOrder(t *testing.T) {
	var s script
	failed := s.try("close", unix.SYS_CLOSE, 1<<30)
	skipped := s.then(failed, "getpid", unix.SYS_GETPID)
	fd := s.try("dup", unix.SYS_DUP, 1)
	closed := s.on(fd, "close", unix.SYS_CLOSE)
	made := s.then(closed, "getpid", unix.SYS_GETPID)
	stop := s.must("close", unix.SYS_CLOSE, 1<<30)
	never := s.try("getpid", unix.SYS_GETPID)
	results, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]uintptr{failed: 1, skipped: 0, fd: 1, closed: 1, made: 1, stop: 1, never: 0} {
		if results[i].done != want {
			t.Errorf("step %d %s: %+v", i, s.calls[i].name, results[i])
		}
	}
	if results[failed].errno != unix.EBADF || results[closed].errno != 0 {
		t.Errorf("errnos: %+v", results)
	}
	if f, ok := s.stoppedBy(results).(*failure); !ok || f.call != "close" || f.err != unix.EBADF {
		t.Errorf("stoppedBy: %v", s.stoppedBy(results))
	}
}

// needs returns the path of a program, or skips the test.
func needs(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}
